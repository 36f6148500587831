"""Device nodes of the driver, and the links that keep them in containers."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass

from gpusmith.probe.files import read_text, to_int

KINDS = (
    (stat.S_ISCHR, "char"),
    (stat.S_ISBLK, "block"),
    (stat.S_ISLNK, "link"),
    (stat.S_ISREG, "file"),
    (stat.S_ISDIR, "folder"),
)


@dataclass(frozen=True)
class DeviceNode:
    """What a path in /dev is.

    Attributes:
        kind: 'char' for a character device; others are faults.
        mode: its permission bits.
    """

    kind: str
    major: int | None
    minor: int | None
    mode: int
    uid: int
    gid: int


@dataclass(frozen=True)
class Dev:
    """The driver's device nodes, as they were before NVML started.

    Attributes:
        nodes: by path, those that are there; None if they could not be looked at.
        file_mode: what the driver wants, with the owner; None if it does not say.
        uvm_major: of module nvidia-uvm; None if it is not known.
        gpu_minors: N of each /dev/nvidiaN.
        char_links: names MAJOR:MINOR of links in /dev/char that lead to their device node.
    """

    nodes: Mapping[str, DeviceNode] | None = None
    file_mode: int | None = None
    file_uid: int | None = None
    file_gid: int | None = None
    uvm_major: int | None = None
    gpu_minors: tuple[int, ...] = ()
    control: bool = False
    uvm: bool = False
    uvm_tools: bool = False
    char_links: frozenset[str] = frozenset()


def read_device(path: str) -> DeviceNode | None:
    """What a path in /dev is; None if there is nothing. A link is not followed."""
    try:
        seen = os.lstat(path)
    except OSError:
        return None
    kind = next((name for is_kind, name in KINDS if is_kind(seen.st_mode)), "other")
    device = kind in ("char", "block")
    return DeviceNode(
        kind=kind,
        major=os.major(seen.st_rdev) if device else None,
        minor=os.minor(seen.st_rdev) if device else None,
        mode=stat.S_IMODE(seen.st_mode),
        uid=seen.st_uid,
        gid=seen.st_gid,
    )


def parse_params(text: str) -> dict[str, int | None]:
    """Mode and owner that the driver wants its device nodes to have, of /proc/driver/nvidia/params."""
    rows = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)

    def number(name: str) -> int | None:
        value = (rows.get(name) or "").strip()
        # The driver prints decimals; nobody's mode begins with a zero there.
        octal = name == "DeviceFileMode" and re.match(r"^0[0-7]+$", value)
        return int(value, 8) if octal else to_int(value)

    return {
        "file_mode": number("DeviceFileMode"),
        "file_uid": number("DeviceFileUID"),
        "file_gid": number("DeviceFileGID"),
    }


def major_of(name: str, text: str) -> int | None:
    """Major number of a character device in the text of /proc/devices."""
    matched = re.search(rf"^ *(\d+) {re.escape(name)}$", text.partition("Block devices")[0], re.MULTILINE)
    return int(matched.group(1)) if matched else None


def leads_to_its_device(link: str) -> bool:
    """Whether a link such as /dev/char/195:0 leads to a device node of NVIDIA's with the numbers in its name."""
    try:
        target = os.path.realpath(link)
        if not os.path.islink(link) or not re.match(r"^/dev/nvidia[^/]*$", target):
            return False
        device = os.stat(target).st_rdev
    except OSError:
        return False
    return os.path.basename(link) == f"{os.major(device)}:{os.minor(device)}"


def gather() -> Dev:
    """Device nodes as they are before NVML starts: for root it makes missing ones anew, with nvidia-modprobe."""
    minors = []
    for path in glob.glob("/dev/nvidia[0-9]*"):
        matched = re.match(r"^/dev/nvidia(\d+)$", path)
        if matched:
            minors.append(int(matched.group(1)))
    # Not the hundreds of links to /dev/nvidia-caps, which only MIG needs.
    links = [os.path.basename(link) for link in glob.glob("/dev/char/*") if leads_to_its_device(link)]
    paths = [
        *(f"/dev/nvidia{minor}" for minor in sorted(minors)),
        "/dev/nvidiactl",
        "/dev/nvidia-uvm",
        "/dev/nvidia-uvm-tools",
    ]
    nodes = {path: read_device(path) for path in paths}
    return Dev(
        nodes={path: node for path, node in nodes.items() if node is not None},
        uvm_major=major_of("nvidia-uvm", read_text("/proc/devices") or ""),
        gpu_minors=tuple(sorted(minors)),
        control=os.path.exists("/dev/nvidiactl"),
        uvm=os.path.exists("/dev/nvidia-uvm"),
        uvm_tools=os.path.exists("/dev/nvidia-uvm-tools"),
        char_links=frozenset(links),
        **parse_params(read_text("/proc/driver/nvidia/params") or ""),
    )
