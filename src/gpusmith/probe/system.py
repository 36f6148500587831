"""Swap, kernel modules and kernel parameters as they are now."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import glob
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpusmith.probe.boot import MODULES, SYSCTLS, UNIT_FOLDER, Boot, part_of_kernel, sysctl_key
from gpusmith.probe.files import read_text
from gpusmith.probe.kernels import FABRIC
from gpusmith.probe.modprobe import plain_module


@dataclass(frozen=True)
class System:
    """The running system.

    Attributes:
        swap_areas: names of active areas; None if they cannot be read.
        swap_fstab: what /etc/fstab turns on at boot.
        swap_target_masked: None without systemd.
        modules: by name, whether it is loaded or part of the kernel.
        sysctl: values by name; None where the kernel has no such parameter.
        locked: names of parameters that nobody on this machine can set, as in a container.
        secure_boot: None if it cannot be read.
        kernel_keys: identifiers of the certificates in the kernel's keyrings, in hexadecimal digits; None if it lists none.
    """

    swap_areas: tuple[str, ...] | None = None
    swap_fstab: tuple[str, ...] = ()
    swap_target_masked: bool | None = None
    modules: Mapping[str, bool] = field(default_factory=dict)
    sysctl: Mapping[str, str | None] = field(default_factory=dict)
    locked: tuple[str, ...] = ()
    secure_boot: bool | None = None
    kernel_keys: tuple[str, ...] | None = None


def read_sysctl(name: str, root: str = "/proc/sys") -> str | None:
    """What the kernel shows for a parameter, one space between its numbers; None if it has no such parameter.

    A pattern such as net.ipv4.conf.*.rp_filter gives all values that there are, each once.
    """
    texts = (read_text(path) for path in glob.glob(os.path.join(root, sysctl_key(name))))
    values = sorted({" ".join(text.split()) for text in texts if text is not None})
    return ", ".join(values) if values else None


def is_locked(name: str, root: str = "/proc/sys") -> bool:
    """Whether a parameter is there and cannot be written, also by root: /proc/sys is read-only, or belongs to the host's root."""
    paths = glob.glob(os.path.join(root, sysctl_key(name)))
    return bool(paths) and not any(os.access(path, os.W_OK) for path in paths)


def module_present(name: str, builtin: str, root: str = "/sys/module") -> bool:
    """Whether a module is loaded or, by the text of modules.builtin, part of the kernel."""
    return os.path.isdir(os.path.join(root, plain_module(name))) or part_of_kernel(name, builtin)


def swap_areas(text: str) -> list[str]:
    """Names of the active swap areas in the text of /proc/swaps."""
    return [line.split()[0] for line in text.splitlines()[1:] if line.strip()]


def is_swap_line(line: str) -> bool:
    """Whether a line of /etc/fstab turns swap on at boot."""
    fields = line.split()
    return (
        len(fields) >= 3
        and not fields[0].startswith("#")
        and fields[2] == "swap"
        and not (len(fields) >= 4 and "noauto" in fields[3].split(","))
    )


def swap_lines(text: str) -> list[str]:
    """What the text of /etc/fstab turns swap on with at boot."""
    return [line.split()[0] for line in text.splitlines() if is_swap_line(line)]


def secure_boot() -> bool | None:
    """By the firmware's variable; None if it cannot be read."""
    if not os.path.isdir("/sys/firmware/efi"):
        return False
    secure: bool | None = None
    for path in glob.glob("/sys/firmware/efi/efivars/SecureBoot-*"):
        try:
            with open(path, "rb") as file:
                secure = file.read()[-1:] == b"\x01"
        except OSError:
            continue
    return secure


def kernel_keys(text: str) -> tuple[str, ...]:
    """Identifiers of certificates in the text of /proc/keys, where a name comes before them and may have blanks and colons."""
    return tuple(re.findall(r"^(?:\S+\s+){7}asymmetri\s.*: ([0-9a-f]+): X509\.", text, re.MULTILINE))


def gather(boot: Boot | None) -> System:
    """The running system, with what boots shall load and set."""
    swaps = read_text("/proc/swaps")
    areas = tuple(swap_areas(swaps)) if swaps is not None else None
    builtin = read_text(f"/lib/modules/{platform.release()}/modules.builtin") or ""
    # A built-in module need not show in /sys/module: what it brings into /proc tells as well.
    brings = {
        "overlay": "overlay" in (read_text("/proc/filesystems") or "").split(),
        "br_netfilter": os.path.exists("/proc/sys/net/bridge/bridge-nf-call-iptables"),
    }
    modules = {
        name: module_present(name, builtin) or brings.get(name.replace("-", "_"), False)
        for name in (*MODULES, *FABRIC, *(boot.modules if boot else ()))
    }
    # Without systemd, which alone finds swap partitions by itself, there is nothing to mask.
    systemd = os.path.isdir("/run/systemd/system")
    masked = os.path.realpath(UNIT_FOLDER + "/swap.target") == "/dev/null"
    parameters = (*SYSCTLS, *(boot.sysctl if boot else ()))
    return System(
        swap_areas=areas,
        swap_fstab=tuple(swap_lines(read_text("/etc/fstab") or "")),
        swap_target_masked=masked if systemd else None,
        modules=modules,
        sysctl={name: read_sysctl(name) for name in parameters},
        locked=tuple(name for name in dict.fromkeys(parameters) if is_locked(name)),
        secure_boot=secure_boot(),
        # Those of a distribution are always there: a kernel that lists none shows them to somebody else.
        kernel_keys=kernel_keys(read_text("/proc/keys") or "") or None,
    )
