"""Device nodes of the driver, and the links in /dev/char that keep them in running containers."""

from __future__ import annotations

from gpusmith.probe.dev import Dev, DeviceNode
from gpusmith.probe.record import Record
from gpusmith.problems import Cure, Problem

MAJOR = 195
"""Registered for NVIDIA's driver; a GPU's minor is the number in its path, 255 is the driver's own."""
CONTROL, UVM, UVM_TOOLS = "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"
OPEN_TO_ALL = 0o666
KINDS = {"file": "a regular file", "link": "a symbolic link", "block": "a block device", "folder": "a folder"}


def _is_there(record: Record) -> bool:
    """Whether there is a driver, or a trace of one. That there is none say others."""
    return record.module.loaded_version is not None or bool(record.dev.gpu_minors)


def missing_nodes(record: Record, node: str) -> list[Problem]:
    """The driver's own device nodes are there; those of GPUs are counted elsewhere."""
    if not _is_there(record):
        return []
    there = {
        CONTROL: (record.dev.control, "without which CUDA cannot start", "-c 255"),
        UVM: (record.dev.uvm, "without which CUDA cannot start", "-u"),
        UVM_TOOLS: (
            record.dev.uvm_tools,
            "without which CUDA's debuggers and profilers cannot start",
            "-u",
        ),
    }
    return [
        Problem(
            f"Node '{node}': device node {path} is missing, {why}.",
            f"Run 'nvidia-modprobe {option}' on '{node}' and look at 'lsmod', or run site.yml.",
            {"missing": path},
            Cure.LOAD,
        )
        for path, (present, why, option) in there.items()
        if not present
    ]


def wrong_nodes(record: Record, node: str) -> list[Problem]:
    """Each device node is what its name says."""
    if record.dev.nodes is None:
        cause = f"Node '{node}': the device nodes could not be read: {'; '.join(record.errors) or 'no reason given'}."
        return [Problem(cause, f"Look at 'ls -l /dev/nvidia*' on '{node}'.")]
    found = []
    for path, device in record.dev.nodes.items():
        wrong = _wrong(path, device, record.dev)
        if wrong:
            found.append(
                Problem(
                    f"Node '{node}': device node {path}{_of_gpu(record, path)} {wrong}.",
                    f"Find out who made it so, then run 'nvidia-modprobe {_option(path)}' on '{node}', which makes it anew;"
                    " any start of NVML as root does the same, so the next run may find it repaired.",
                    {f"device_{path}": {"kind": device.kind, "major": device.major, "minor": device.minor,
                                        "mode": f"{device.mode:04o}", "owner": f"{device.uid}:{device.gid}"}},
                )
            )  # fmt: skip
    return found


def device_nodes(record: Record, node: str) -> list[Problem]:
    """Besides a node per GPU, which the count is about, the driver's own; and each is what its name says."""
    return missing_nodes(record, node) + (wrong_nodes(record, node) if _is_there(record) else [])


def _minor(path: str) -> int | None:
    digits = path.removeprefix("/dev/nvidia")
    return int(digits) if digits.isdigit() else None


def _option(path: str) -> str:
    minor = 255 if path == CONTROL else _minor(path)
    return "-u" if minor is None else f"-c {minor}"


def _of_gpu(record: Record, path: str) -> str:
    minor = _minor(path)
    labels = [gpu.label for gpu in record.nvml.gpus if minor is not None and gpu.minor == minor]
    return f" of {labels[0]}" if labels else ""


def _numbers(path: str, devices: Dev) -> tuple[int | None, int]:
    """Major and minor that belong to a path; None for a major that nobody knows."""
    if path == CONTROL:
        return MAJOR, 255
    minor = _minor(path)
    return (MAJOR, minor) if minor is not None else (devices.uvm_major, 1 if path == UVM_TOOLS else 0)


def _wrong(path: str, device: DeviceNode, devices: Dev) -> str:
    """What is wrong with a device node; empty if nothing is."""
    if device.kind != "char":
        return f"is {KINDS.get(device.kind, 'something else')}, not a character device"
    major, minor = _numbers(path, devices)
    if (device.major, device.minor) != (device.major if major is None else major, minor):
        wanted = f"{'the major of nvidia-uvm' if major is None else major}:{minor}"
        return (
            f"is device {device.major}:{device.minor}, must be {wanted}: who opens it reaches something else"
        )
    mode = OPEN_TO_ALL if devices.file_mode is None else devices.file_mode
    if device.mode & mode != mode:
        return f"has mode {device.mode:04o}, the driver's is {mode:04o}: programs cannot open it"
    owner, wanted_owner = (device.uid, device.gid), (devices.file_uid or 0, devices.file_gid or 0)
    if mode & 0o006 != 0o006 and owner != wanted_owner:
        return f"belongs to {owner[0]}:{owner[1]}, the driver's owner is {wanted_owner[0]}:{wanted_owner[1]}"
    return ""


def char_links(record: Record, node: str) -> list[Problem]:
    """Without them a daemon-reload takes GPUs out of running containers (nvidia-container-toolkit, issue 48)."""
    minors = [*record.dev.gpu_minors, *([255] if record.dev.control else [])]
    # Its major may be another one after each load. That a device node is missing or wrong is said elsewhere.
    major, nodes = record.dev.uvm_major, record.dev.nodes or {}
    uvm = [_numbers(path, record.dev)[1] for path in (UVM, UVM_TOOLS) if path in nodes and major is not None]
    names = [f"{MAJOR}:{minor}" for minor in minors] + [f"{major}:{minor}" for minor in uvm]
    missing = [name for name in names if name not in record.dev.char_links]
    if not missing:
        return []
    return [
        Problem(
            f"Node '{node}': links {', '.join('/dev/char/' + name for name in missing)} are missing"
            " or lead elsewhere, so a 'systemctl daemon-reload' takes these devices from running containers.",
            f"Run 'nvidia-ctk system create-dev-char-symlinks --create-all' on '{node}', or site.yml;"
            " first remove a link that leads elsewhere.",
            {"missing": missing, "present": sorted(record.dev.char_links)},
            Cure.LINKS,
        )
    ]
