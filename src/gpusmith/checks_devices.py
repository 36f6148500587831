"""Checks of the nodes tier on how programs and containers get at the GPUs: device nodes."""

from __future__ import annotations

from gpusmith.findings import Problem
from gpusmith.node_facts import NodeFacts
from gpusmith.record import DeviceNode, Devices, Record

MAJOR = 195
"""Registered for NVIDIA's driver; a GPU's minor is the number in its path, 255 is the driver's own."""
CONTROL, UVM, UVM_TOOLS = "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"
OPEN_TO_ALL = 0o666
KINDS = {"file": "a regular file", "link": "a symbolic link", "block": "a block device", "folder": "a folder"}


def device_nodes(facts: NodeFacts) -> list[Problem]:
    """Besides a node per GPU, which the count is about, the driver's own; and each is what its name says."""
    record, node = facts.record, facts.host.name
    if record.module_loaded is None and not record.minors:
        return []  # the driver is not there, which others say
    there = {
        CONTROL: (record.control_device, "without which CUDA cannot start", "-c 255"),
        UVM: (record.uvm_device, "without which CUDA cannot start", "-u"),
        UVM_TOOLS: (
            record.uvm_tools_device,
            "without which CUDA's debuggers and profilers cannot start",
            "-u",
        ),
    }
    problems = [
        Problem(
            f"Node '{node}': device node {path} is missing, {why}.",
            f"Run 'nvidia-modprobe {option}' on '{node}' and look at 'lsmod', or run site.yml.",
            {"missing": path},
        )
        for path, (present, why, option) in there.items()
        if not present
    ]
    if record.devices is None:
        cause = f"Node '{node}': the device nodes could not be read: {'; '.join(record.errors) or 'no reason given'}."
        return [*problems, Problem(cause, f"Look at 'ls -l /dev/nvidia*' on '{node}'.")]
    for path, device in record.devices.nodes.items():
        wrong = _wrong(path, device, record.devices)
        if wrong:
            problems.append(
                Problem(
                    f"Node '{node}': device node {path}{_of_gpu(record, path)} {wrong}.",
                    f"Find out who made it so, then run 'nvidia-modprobe {_option(path)}' on '{node}', which makes it anew;"
                    " any start of NVML as root does the same, so the next run may find it repaired.",
                    {f"device_{path}": {"kind": device.kind, "major": device.major, "minor": device.minor,
                                        "mode": f"{device.mode:04o}", "owner": f"{device.uid}:{device.gid}"}},
                )
            )  # fmt: skip
    return problems


def _minor(path: str) -> int | None:
    digits = path.removeprefix("/dev/nvidia")
    return int(digits) if digits.isdigit() else None


def _option(path: str) -> str:
    minor = 255 if path == CONTROL else _minor(path)
    return "-u" if minor is None else f"-c {minor}"


def _of_gpu(record: Record, path: str) -> str:
    minor = _minor(path)
    labels = [gpu.label for gpu in record.gpus if minor is not None and gpu.minor == minor]
    return f" of {labels[0]}" if labels else ""


def _numbers(path: str, devices: Devices) -> tuple[int | None, int]:
    """Major and minor that belong to a path; None for a major that nobody knows."""
    if path == CONTROL:
        return MAJOR, 255
    minor = _minor(path)
    return (MAJOR, minor) if minor is not None else (devices.uvm_major, 1 if path == UVM_TOOLS else 0)


def _wrong(path: str, device: DeviceNode, devices: Devices) -> str:
    """What is wrong with a device node; empty if nothing is."""
    if device.kind != "char":
        return f"is {KINDS.get(device.kind, 'something else')}, not a character device"
    major, minor = _numbers(path, devices)
    if (device.major, device.minor) != (device.major if major is None else major, minor):
        wanted = f"{'the major of nvidia-uvm' if major is None else major}:{minor}"
        return (
            f"is device {device.major}:{device.minor}, must be {wanted}: who opens it reaches something else"
        )
    mode = OPEN_TO_ALL if devices.mode is None else devices.mode
    if device.mode & mode != mode:
        return f"has mode {device.mode:04o}, the driver's is {mode:04o}: programs cannot open it"
    owner, wanted_owner = (device.uid, device.gid), (devices.uid or 0, devices.gid or 0)
    if mode & 0o006 != 0o006 and owner != wanted_owner:
        return f"belongs to {owner[0]}:{owner[1]}, the driver's owner is {wanted_owner[0]}:{wanted_owner[1]}"
    return ""
