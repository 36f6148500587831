#!/usr/bin/python
"""Ansible module: a folder of package files that a site has put together, on the node. Action plugins bring the files."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: packages_folder
short_description: Keep a folder of package files on the node, verified by its list
description:
  - Takes files that were copied to the node, with their list C(SHA256SUMS), into C(/var/lib/gpusmith/repositories/NAME/DIGEST), where C(DIGEST) is
    that of the list, compares them with the list and makes a repository of them for apt or dnf. Nothing is installed or configured.
  - A folder that already exists is compared with its list.
  - M(gpusmith.gpu.packages), M(gpusmith.gpu.preflight), M(gpusmith.gpu.driver_offers) and M(gpusmith.gpu.driver_upgrade) call it if a repository is
    a folder on the controller, and copy the files that the node lacks.
version_added: "0.1.0"
author: gpusmith contributors
options:
  name:
    description: As for M(gpusmith.gpu.packages).
    type: str
    required: true
  repository:
    description: As for M(gpusmith.gpu.packages), with the path of the folder on the node.
    type: dict
    required: true
  sums:
    description: Text of the list.
    type: str
    required: true
  brought:
    description: Path of the copied files on the node. Without it no files are taken.
    type: path
attributes:
  check_mode:
    support: none
    description: >-
      Takes files in check mode, too, since only the node's package manager can tell what would be installed from the folder. Nothing uses the
      folder before a run without check mode.
"""

EXAMPLES = r"""
- name: See what the node has of a folder
  gpusmith.gpu.packages_folder:
    name: nvidia-driver
    repository: {type: deb, folder: "/var/lib/gpusmith/repositories/nvidia-driver/{{ sums | hash('sha256') }}"}
    sums: "{{ sums }}"
"""

RETURN = r"""
lacking:
  description: Files that the node lacks.
  returned: always
  type: list
  elements: str
free:
  description: Free bytes at the place to which they are copied.
  returned: always
  type: int
"""

import shutil
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import base, folder, index, signatures
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.repositories import repository_of


def lacking(kept: Path, text: str) -> list[str]:
    """Files that are not where the node keeps the folder; all, if one of them is another one."""
    found = folder.parse(text, folder.SUMS)
    try:
        folder.prove_kept(kept)
    except base.PackageError:
        return sorted(found.digests)
    return []


def free(path: Path) -> int:
    """Bytes that are free where a path is or will be."""
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free


def work(params: dict[str, Any]) -> dict[str, Any]:
    """The module's answer."""
    repository = repository_of(params["repository"], params["name"])
    kept = Path(repository.folder)
    if params["brought"]:
        folder.keep(Path(params["brought"]), params["sums"], kept)
    names = lacking(kept, params["sums"])
    if not names and repository.key:
        files = [kept / name for name in sorted(folder.prove_kept(kept).digests)]
        signatures.check(files, {"key": repository.key}, index.run)
    return {"changed": bool(params["brought"]), "lacking": names, "free": free(kept)}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "repository": {"type": "dict", "required": True, "no_log": False},
            "sums": {"type": "str", "required": True},
            "brought": {"type": "path"},
        },
        supports_check_mode=True,
    )
    try:
        answer = work(module.params)
    except (base.PackageError, OSError) as error:
        module.fail_json(msg=str(error))
        raise
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
