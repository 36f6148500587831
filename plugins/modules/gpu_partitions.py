#!/usr/bin/python
"""Ansible module: a node's GPUs divided by MIG, now and after each boot, or whole."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_partitions
short_description: Divide the GPUs of a node by MIG, or make them whole
description:
  - Part of a change of a node's layout. A node that serves must be drained first, and its operands off; this module does not know the cluster.
    Nobody is ended for it. If a process holds a GPU, the module fails and names it.
  - Writes the node's own word of its layout, C(/etc/gpusmith/gpu-layout.json), then the program that goes by it and its unit
    C(gpusmith-gpu-layout.service), and runs the program. At each boot the unit runs it before the kubelet, and again until it succeeds. The device
    plugin of the layout does not start before that.
  - GPUs that are as they should be stay untouched. Instances are never moved. A GPU that is not so loses all of its instances.
  - Without O(layout) it makes GPUs whole, and then removes program, unit and file. The file goes last, so that whoever finds it goes on.
  - Device links and CDI specification are made anew after a change of GPUs, if C(gpusmith-gpu-devices.service) is there.
author: gpusmith contributors
options:
  layout:
    type: dict
    default: {}
    description: >-
      How each GPU is divided. Keys profile (its name), nvml (that of NVML, after C(NVML_GPU_INSTANCE_PROFILE_)) and starts (the first memory slice
      of each instance). Empty for whole GPUs.
  ignored:
    type: list
    elements: str
    default: []
    description: GPUs that stay untouched, by PCI device ids or PCI addresses, as in C(gpusmith_gpus_ignored).
  mps:
    type: bool
    default: false
    description: >-
      GPUs are shared by MPS, whose files and compute mode stay. Otherwise its folder C(/run/nvidia/mps) goes, and all GPUs are set to compute mode
      DEFAULT, since a control daemon that was killed leaves another one.
  look: {type: bool, default: false, description: "Change nothing, as in check mode."}
  bundle: {type: str, default: "", description: The program; set by the action plugin.}
"""

RETURN = r"""
done: {type: list, elements: str, returned: always, description: "What was done to GPUs, or would be, in words."}
in_use: {type: bool, returned: failure, description: "Whether a GPU could not be changed because somebody uses it."}
paths: {type: list, elements: str, returned: success, description: Files that changed.}
simulated: {type: bool, returned: success, description: Whether the GPUs are simulated. Null if there is no driver.}
"""

import base64
import contextlib
import json
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpusmith.gpu.plugins.module_utils import bundle, gpu_layout
from ansible_collections.gpusmith.gpu.plugins.module_utils.files import put, read
from ansible_collections.gpusmith.gpu.plugins.module_utils.gpu_layout import FILE, PROGRAM, SCHEMA

UNITS = Path("/etc/systemd/system")
UNIT = "gpusmith-gpu-layout.service"
LINK = "kubelet.service.wants/" + UNIT
SPECIFICATIONS = ("nvidia-cdi-refresh.service", "gpusmith-gpu-devices.service")
"""What writes CDI specifications at boot; ours comes last, and writes device links as well."""
TEXT = """\
# Written by gpusmith. Where it fails, the kubelet starts, and the device plugin of the layout waits until a try succeeds.
[Unit]
Description=Layout of the NVIDIA GPUs (MIG)
# Later models lose the mode with the driver, and no GPU keeps its instances over a reboot.
After=systemd-modules-load.service gpusmith-nvidia-load.service nvidia-persistenced.service nvidia-fabricmanager.service
Before=gpusmith-gpu-devices.service nvidia-cdi-refresh.service nvidia-dcgm.service containerd.service kubelet.service

[Service]
Type=oneshot
RemainAfterExit=yes
TimeoutStartSec=600
ExecStart={python} {program}
Restart=on-failure
RestartSec=30

[Install]
WantedBy=kubelet.service
"""


class Partitions:
    """The node's GPUs, and what is on it for them."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._program = base64.b64decode(module.params["bundle"])
        layout, ignored = module.params["layout"], module.params["ignored"]
        self._word = json.dumps(
            {"schema": SCHEMA, **layout, **({"ignored": ignored} if ignored else {})}, sort_keys=True
        )
        # The system's own outlives what Ansible was told to use.
        python = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
        text = TEXT.format(python=python, program=PROGRAM)
        self._files = {
            FILE: (self._word + "\n") if layout else None,
            UNITS / UNIT: text if layout else None,
        }
        self._whole = not layout
        self._mps = ("--mps",) if module.params["mps"] else ()
        self._before: Optional[str] = None
        self._begun = False

    # --- what differs ---

    def plan(self) -> Dict[str, Any]:
        """What GPUs need; fails if they cannot be made so, before anything is changed."""
        folder = Path(self._module.tmpdir)
        program, file = folder / "gpu-layout.pyz", folder / "gpu-layout.json"
        program.write_bytes(self._program)
        file.write_text(self._word, encoding="utf-8")
        return self._run(program, "--check", *self._mps, "--file", str(file))

    def paths(self) -> List[Path]:
        """Files that differ, in the order in which they are written: who is interrupted goes on at the next boot, or run."""
        found = [path for path, text in self._files.items() if read(path) != text]
        if self._installed() != (None if self._whole else self._program):
            found.insert(1 if found[:1] == [FILE] else 0, PROGRAM)
        return found

    def enabled(self) -> bool:
        """Whether boots run the program."""
        return (UNITS / LINK).is_symlink()

    def _installed(self) -> Optional[bytes]:
        return PROGRAM.read_bytes() if PROGRAM.exists() else None

    # --- the change ---

    def divide(self, paths: List[Path]) -> Dict[str, Any]:
        """Write the files, and divide the GPUs. Where nobody could touch a GPU, new files go again."""
        self._before, self._begun = read(FILE), True
        try:
            for path in paths:
                put(path, self._program if path == PROGRAM else self._files[path], 0o644)
        except OSError:
            self._undo()
            raise
        if UNITS / UNIT in paths or not self.enabled():
            self._systemctl("enable", "--no-reload", UNIT)
            self._systemctl("daemon-reload")
        result = self._run(PROGRAM)
        # It has nothing left to do now, nor has the next start of the kubelet, which asks for it.
        self._systemctl("start", UNIT)
        return result

    def unite(self, paths: List[Path]) -> Dict[str, Any]:
        """Make the GPUs whole, and remove the files."""
        folder = Path(self._module.tmpdir)
        if FILE in paths:
            # A boot in the middle of it makes them whole as well.
            put(FILE, self._word + "\n", 0o644)
        result = self._run(folder / "gpu-layout.pyz", *self._mps, "--file", str(folder / "gpu-layout.json"))
        if self.enabled():
            self._systemctl("disable", "--no-reload", UNIT)
        self._remove()
        return result

    def _remove(self) -> None:
        there = (UNITS / UNIT).exists()
        for path in (UNITS / UNIT, PROGRAM):
            put(path, None)
        if there:
            self._systemctl("stop", UNIT)
            self._systemctl("daemon-reload")

    def finish(self) -> None:
        """Have containers given what there is now, and forget what is done."""
        for unit in SPECIFICATIONS:
            if self._module.run_command(["systemctl", "is-enabled", "--quiet", unit])[0] == 0:
                self._systemctl("restart", unit)
        if self._whole:
            self._forget()

    def _undo(self) -> None:
        """No GPU was changed: the node is as it was, and so is its next boot."""
        if self._before is not None:
            put(FILE, self._before, 0o644)
            return
        if self.enabled():
            self._systemctl("disable", "--no-reload", UNIT)
        self._remove()
        self._forget()

    def _forget(self) -> None:
        put(FILE, None)
        for folder in (PROGRAM.parent, FILE.parent):
            if folder.is_dir() and not list(folder.iterdir()):
                with contextlib.suppress(OSError):  # such as a mount of its own
                    folder.rmdir()

    def _run(self, program: Path, *words: str) -> Dict[str, Any]:
        """The program's result."""
        result: Dict[str, Any]
        result, problem = gpu_layout.call(self._module.run_command, program, *words)
        if problem:
            if self._begun and not result["done"]:
                self._undo()
            told = {name: result[name] for name in ("done", "changed", "in_use")}
            self._module.fail_json(msg=problem, **told)
        return result

    def _systemctl(self, *words: str) -> None:
        status, _output, error = self._module.run_command(["systemctl", *words])
        if status != 0:
            self._module.fail_json(
                msg="systemctl {} failed: {}".format(" ".join(words), " ".join(error.split())), done=[]
            )

    def diff(self, paths: List[Path]) -> List[Dict[str, str]]:
        """What becomes of the files."""
        return [
            {
                "before_header": str(path),
                "after_header": str(path),
                "before": "" if path == PROGRAM else read(path) or "",
                "after": self._files.get(path) or "",
            }
            for path in paths
        ]


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "layout": {"type": "dict", "default": {}},
            "ignored": {"type": "list", "elements": "str", "default": []},
            "mps": {"type": "bool", "default": False},
            "look": {"type": "bool", "default": False},
            "bundle": bundle.OPTION,
        },
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C", "LANGUAGE": "C"}
    try:
        _change(module)
    except OSError as error:
        module.fail_json(
            msg="'{}': {}.".format(error.filename or "a file", error.strerror or error), done=[], in_use=False
        )


def _change(module: Any) -> None:
    partitions = Partitions(module)
    result = partitions.plan()
    paths = partitions.paths()
    whole = not module.params["layout"]
    due = bool(paths) or partitions.enabled() == whole
    diff = partitions.diff(paths)
    if (due or result["done"]) and not (module.check_mode or module.params["look"]):
        result = partitions.unite(paths) if whole else partitions.divide(paths)
        partitions.finish()
    module.exit_json(
        changed=bool(due or result["done"]),
        done=result["done"],
        simulated=result["simulated"],
        paths=[str(path) for path in paths],
        diff=diff,
    )


if __name__ == "__main__":
    main()
