#!/usr/bin/python
"""Ansible module: what preflight has to know about a machine. Its action plugin judges the answer on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight
short_description: Find reasons not to touch a machine
description:
  - Gathers free space, clock, kernel headers, drivers that no package owns, the package manager, and
    what the configured repositories offer of packages that are not installed yet, in one round trip. Repositories are asked in a folder that
    vanishes afterwards, signature included.
  - Judges all that and the node's record on the controller, against the inventory, C(data/gpus.yml) and C(data/compatibility.yml).
  - Never fails because of what it finds; it returns reasons to refuse the machine.
version_added: "0.1.0"
author: gpusmith contributors
options:
  wanted:
    description: What the inventory says, see role C(preflight).
    type: dict
    required: true
  repositories:
    description: By owner, the repository and the version that is needed of each package; keys repository and packages.
    type: dict
    default: {}
  free_space_mib:
    description: Free space that is needed, by path.
    type: dict
    default: {}
  controller_time:
    description: Unix time of the controller; set by the action plugin.
    type: float
  record:
    description: Record of the node, as M(gpusmith.gpu.node_state) says it. It stays on the controller.
    type: dict
    required: true
  library:
    description: Path of the NVIDIA management library; set by the action plugin.
    type: str
attributes:
  check_mode:
    support: full
    description: Changes nothing in either mode.
"""

EXAMPLES = r"""
- name: Look at the machine
  gpusmith.gpu.preflight:
    wanted: {gpu_model: h100-sxm, gpu_count: 8}
    record: "{{ node_record_now.record }}"
  register: __preflight
"""

RETURN = r"""
refusals:
  description: Reasons not to go on; keys message and hint.
  returned: always
  type: list
  elements: dict
"""

import os
import platform
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpusmith.gpu.plugins.module_utils import packages
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import base


def free_mib(path: str) -> int:
    """MiB that are free where a path is or will be."""
    place = Path(path)
    while not place.exists():
        place = place.parent
    status = os.statvfs(place)
    return status.f_bavail * status.f_frsize // (1024 * 1024)


def headers_there(backend: base.Backend | None, kernel: str) -> bool:
    """Whether modules can be compiled for the running kernel, now or with a package that the package manager knows."""
    if Path(f"/lib/modules/{kernel}/build").exists():
        return True
    if backend is None:
        return True  # the package manager is refused on its own, and this name would not be its package's
    try:
        return bool(backend.offered([f"linux-headers-{kernel}"]))
    except base.PackageError:
        return False


def unowned_driver(backend: base.Backend | None, library: str | None) -> list[str]:
    """Files of a driver that came by NVIDIA's installer: its own uninstaller, and a library that no package owns."""
    found = [path for path in ("/usr/bin/nvidia-uninstall",) if Path(path).exists()]
    if library is not None and backend is not None and backend.owner(library) is None:
        found.append(library)
    return found


def ask(backend: base.Backend, owner: str, asked: dict[str, Any]) -> dict[str, Any] | None:
    """What a repository offers; None if everything that is needed of it is installed."""
    names = {name: str(version) for name, version in asked["packages"].items()}
    there = backend.installed(names)
    missing = {
        name: version
        for name, version in names.items()
        if not base.satisfies(there[name].version if name in there else None, version)
    }
    if not missing:
        return None
    answer: dict[str, Any] = {"asked": missing, "versions": {}, "error": None}
    try:
        with backend.aside({owner: base.repository(asked["repository"], owner)}) as beside:
            answer["versions"] = beside.offered(missing)
    except base.PackageError as error:
        answer["error"] = str(error)
    return answer


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "wanted": {"type": "dict", "required": True},
            "record": {"type": "dict", "required": True},
            "repositories": {"type": "dict", "default": {}},
            "free_space_mib": {"type": "dict", "default": {}},
            "controller_time": {"type": "float"},
            "library": {"type": "str"},
        },
        supports_check_mode=True,
    )
    now = time.time()
    repositories: dict[str, Any] = {}
    manager = packages.manager()
    backend = packages.backend() if manager in packages.SUPPORTED else None
    if backend is not None:
        with ThreadPoolExecutor(max_workers=8) as pool:
            waiting = {
                owner: pool.submit(ask, backend, owner, asked)
                for owner, asked in module.params["repositories"].items()
            }
        answers = {owner: future.result() for owner, future in waiting.items()}
        repositories = {owner: answer for owner, answer in answers.items() if answer is not None}
    controller = module.params["controller_time"]
    module.exit_json(
        changed=False,
        package_manager=manager,
        repositories=repositories,
        kernel_headers=headers_there(backend, platform.release()),
        disk={
            path: {"free_mib": free_mib(path), "needed_mib": int(need)}
            for path, need in module.params["free_space_mib"].items()
        },
        clock_offset_s=now - controller if controller else 0.0,
        foreign_driver=unowned_driver(backend, module.params["library"]),
    )


if __name__ == "__main__":
    main()
