#!/usr/bin/python
"""Ansible module: no swap, now and after a reboot."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: swap_off
short_description: Turn swap off, now and after a reboot
description:
  - Turns off every active swap area, comments out the swap lines of C(/etc/fstab) that take effect at boot, and masks systemd's C(swap.target),
    which also keeps swap partitions that systemd finds by itself from coming back.
  - Disables swap units that a unit other than C(swap.target) starts, and the services C(zramswap) and C(zram-config), by removing the links that start
    them at boot. Nothing asks systemd for a daemon-reload.
author: gpusmith contributors
options:
  fstab: {type: path, default: /etc/fstab, description: The table of file systems.}
  bundle: {type: str, default: "", description: The probe's code; set by the action plugin.}
"""

RETURN = r"""
was_active: {type: list, elements: str, returned: always, description: The swap areas that were active.}
"""

import os
import shutil
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpusmith.gpu.plugins.module_utils import bundle
from ansible_collections.gpusmith.gpu.plugins.module_utils.files import AS_IT_IS, read

MARK = "# swap is off (gpusmith): "
MASK = Path("/etc/systemd/system/swap.target")
SYSTEMD = Path("/run/systemd/system")


def without_swap(fstab: str) -> str:
    """The table with its swap lines commented out."""
    from gpusmith.probe.system import is_swap_line

    lines = fstab.splitlines(keepends=True)
    return "".join(MARK + line if is_swap_line(line) else line for line in lines)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={"fstab": {"type": "path", "default": "/etc/fstab"}, "bundle": bundle.OPTION},
        supports_check_mode=True,
    )
    bundle.take(module)
    from gpusmith.probe import boot, system

    fstab = Path(module.params["fstab"])
    table = read(fstab) or ""
    active = system.swap_areas(Path("/proc/swaps").read_text(encoding="utf-8"))
    masked = os.path.realpath(MASK) == "/dev/null"

    changed = False
    if without_swap(table) != table:
        changed = True
        if not module.check_mode:
            temporary = fstab.with_name(fstab.name + ".gpusmith")
            temporary.write_text(without_swap(table), encoding="utf-8", errors=AS_IT_IS)
            shutil.copystat(fstab, temporary)
            temporary.replace(fstab)
    if SYSTEMD.is_dir() and not masked:
        changed = True
        if not module.check_mode:
            # A link is all that masking is. Without a daemon-reload it counts from the next boot on, which is what it is for.
            MASK.parent.mkdir(parents=True, exist_ok=True)
            if MASK.is_symlink():
                MASK.unlink()
            MASK.symlink_to("/dev/null")
    for link in boot.swap_units():
        changed = True
        if not module.check_mode:
            Path(link).unlink()  # all that 'systemctl disable' does, but for the daemon-reload
    if active:
        changed = True
        if not module.check_mode:
            status, _output, error = module.run_command(["swapoff", "-a"])
            if status != 0:
                module.fail_json(
                    msg=f"Swap on {', '.join(repr(name) for name in active)} cannot be turned off: {error.strip()} "
                    "If it has to stay, set 'host_baseline_swap: keep' and tell the kubelet with 'failSwapOn: false'."
                )
    module.exit_json(changed=changed, was_active=active)


if __name__ == "__main__":
    main()
