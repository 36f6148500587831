"""Checks of the nodes tier on how programs and containers get at the GPUs: device nodes, the links to them, and CDI."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from itertools import combinations
from typing import Any

from gpusmith.findings import CannotAsk
from gpusmith.node.facts import NodeFacts
from gpusmith.operands import restart_plugin
from gpusmith.probe.cdi import CdiNode, CdiSpec
from gpusmith.probe.dev import Dev, DeviceNode
from gpusmith.probe.record import Record
from gpusmith.problems import Problem

MAJOR = 195
"""Registered for NVIDIA's driver; a GPU's minor is the number in its path, 255 is the driver's own."""
CONTROL, UVM, UVM_TOOLS = "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"
OPEN_TO_ALL = 0o666
KINDS = {"file": "a regular file", "link": "a symbolic link", "block": "a block device", "folder": "a folder"}


def device_nodes(facts: NodeFacts) -> list[Problem]:
    """Besides a node per GPU, which the count is about, the driver's own; and each is what its name says."""
    record, node = facts.record, facts.host.name
    if record.module.loaded_version is None and not record.dev.gpu_minors:
        return []  # the driver is not there, which others say
    there = {
        CONTROL: (record.dev.control, "without which CUDA cannot start", "-c 255"),
        UVM: (record.dev.uvm, "without which CUDA cannot start", "-u"),
        UVM_TOOLS: (
            record.dev.uvm_tools,
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
    if record.dev.nodes is None:
        cause = f"Node '{node}': the device nodes could not be read: {'; '.join(record.errors) or 'no reason given'}."
        return [*problems, Problem(cause, f"Look at 'ls -l /dev/nvidia*' on '{node}'.")]
    for path, device in record.dev.nodes.items():
        wrong = _wrong(path, device, record.dev)
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


# --- CDI -----------------------------------------------------------------------------------------------------------


def char_links(facts: NodeFacts) -> list[Problem]:
    """Without them a daemon-reload takes GPUs out of running containers (nvidia-container-toolkit, issue 48)."""
    record, node = facts.record, facts.host.name
    wanted = {195: [*record.dev.gpu_minors, 255] if record.dev.control else list(record.dev.gpu_minors)}
    missing = [
        f"{major}:{minor}"
        for major, minors in wanted.items()
        for minor in minors
        if f"{major}:{minor}" not in record.dev.char_links
    ]
    if not record.dev.gpu_minors:
        raise CannotAsk(f"Node '{node}' has no GPU device nodes; see nodes.gpu-count.")
    if not missing:
        return []
    return [
        Problem(
            f"Node '{node}': links {', '.join('/dev/char/' + name for name in missing)} are missing"
            " or lead elsewhere, so a 'systemctl daemon-reload' takes these devices from running containers.",
            f"Run 'nvidia-ctk system create-dev-char-symlinks --create-all' on '{node}', or site.yml;"
            " first remove a link that leads elsewhere.",
            {"missing": missing, "present": sorted(record.dev.char_links)},
        )
    ]


def _winners(specs: Sequence[CdiSpec]) -> dict[str, CdiSpec]:
    """The specification that each name is taken from: CDI lets a later folder win."""
    return {name: spec for spec in sorted(specs, key=lambda row: row.priority) for name in spec.names}


def _shadowed_by(spec: CdiSpec, winners: Mapping[str, CdiSpec]) -> list[str]:
    """Paths of what takes names from a specification."""
    return sorted({winners[name].path for name in spec.names} - {spec.path})


def cdi_evidence(record: Record) -> dict[str, Any]:
    """Which specifications there are, and which of them nobody gets because others win."""
    winners = _winners(record.cdi.specs)
    used = {spec.path for spec in winners.values()}
    return {
        "cdi_specs": {spec.path: spec.driver_version for spec in record.cdi.specs},
        "device_plugin": [spec.path for spec in record.cdi.plugin_specs],
        "devices": sorted(winners),
        "shadowed": {
            spec.path: f"{spec.driver_version} (by {', '.join(_shadowed_by(spec, winners))})"
            for spec in record.cdi.specs
            if spec.names and spec.path not in used
        },
    }


def cdi(facts: NodeFacts) -> list[Problem]:
    """Made for the loaded driver, with every GPU under its own device node, and from one source."""
    record, node = facts.record, facts.host.name
    evidence = cdi_evidence(record)
    step = f"Run 'systemctl restart nvidia-cdi-refresh' on '{node}', or site.yml."
    if not record.cdi.specs:
        return [Problem(f"Node '{node}': there is no CDI specification for nvidia.com/gpu.", step, evidence)]
    unread = [
        Problem(
            f"Node '{node}': CDI specification '{spec.path}' cannot be read: {spec.problem}.",
            f"Compare it with 'nvidia-ctk cdi generate' on '{node}', which writes what can be read; remove it or run site.yml.",
            evidence,
        )
        for spec in record.cdi.specs
        if spec.problem
    ]
    if unread:
        return unread
    causes = [*_driver_of_cdi(record), *_gpus_of_cdi(record)]
    again = f"Have the device plugin write it anew: {restart_plugin(facts.host.operands_namespace, facts.host.node_name)}"
    return [
        *(Problem(f"Node '{node}': {cause}.", again, evidence) for cause in _gpus_of_plugin(record)),
        *(
            Problem(f"Node '{node}': {cause}.", how, evidence)
            for cause, how in _conflicts(record.cdi.specs, node)
        ),
        *(Problem(f"Node '{node}': {cause}.", step, evidence) for cause in causes),
    ]


def _named(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names[:8]) + (
        f" and {len(names) - 8} more" if len(names) > 8 else ""
    )


def _conflicts(specs: Sequence[CdiSpec], node: str) -> list[tuple[str, str]]:
    """Names that CDI refuses: given twice by one folder, even if a later folder has them as well."""
    found = []
    for spec in specs:
        twice = [name for name, count in Counter(spec.names).items() if count > 1]
        if twice:
            cause = f"CDI specification '{spec.path}' has {_named(twice)} twice, so CDI refuses all of it"
            found.append(
                (
                    cause,
                    f"Make '{spec.path}' anew on '{node}': 'nvidia-ctk cdi generate --output={spec.path}'.",
                )
            )
    for one, other in combinations(specs, 2):
        both = [name for name in one.nodes if name in other.nodes]
        if both and one.priority == other.priority:
            found.append(
                (
                    f"CDI specifications '{one.path}' and '{other.path}' both have {_named(both)}, so CDI refuses these names",
                    f"Remove one of them on '{node}'; role nvidia_container_toolkit writes 'nvidia_container_toolkit_cdi_spec'.",
                )
            )
    return found


def _driver_of_cdi(record: Record) -> list[str]:
    """A name that is taken from a specification of another driver mounts libraries that are not there."""
    winners = _winners(record.cdi.specs)
    causes = []
    for spec in record.cdi.specs:
        names = [name for name, winner in winners.items() if winner is spec]
        if (
            record.module.loaded_version is None
            or not names
            or spec.driver_version == record.module.loaded_version
        ):
            continue
        below = [
            row.path
            for row in record.cdi.specs
            if row.priority < spec.priority and set(row.names) & set(names)
        ]
        shadows = f"; it shadows {_named(below)}" if below else ""
        causes.append(
            f"CDI specification '{spec.path}' is for driver {spec.driver_version}, loaded is {record.module.loaded_version}"
            f" (devices {_named(names)}){shadows}"
        )
    return causes


def _gpus_of_cdi(record: Record) -> list[str]:
    """Every GPU is there, no other one is, and each name leads to its own device node."""
    winners = _winners(record.cdi.specs)
    causes = [
        f"{gpu.label} is not in the CDI specification"
        for gpu in record.nvml.gpus
        if str(gpu.index) not in winners and gpu.uuid not in winners
    ]
    there = {str(gpu.index) for gpu in record.nvml.gpus} | {gpu.uuid for gpu in record.nvml.gpus}
    strange = sorted(name for name in winners.keys() - there if name.isdigit() or name.startswith("GPU-"))
    # A GPU that does not answer may be one of them.
    if strange and record.nvml.gpus and not any(gpu.error for gpu in record.nvml.gpus):
        causes.append(f"the CDI specification has {_named(strange)}, which is no GPU of the node")
    minors = {gpu.minor for gpu in record.nvml.gpus if gpu.minor is not None}
    wanted: list[tuple[str | None, str, Set[int]]] = [
        (name, gpu.label, {gpu.minor})
        for gpu in record.nvml.gpus
        for name in (str(gpu.index), gpu.uuid)
        if name in winners and gpu.minor is not None
    ]
    if "all" in winners and len(minors) == len(record.nvml.gpus) > 0:
        wanted.append(("all", "the node's GPUs", minors))
    return causes + [
        wrong for name, label, own in wanted if (wrong := _astray(winners[str(name)], str(name), label, own))
    ]


def _gpus_of_plugin(record: Record) -> list[str]:
    """What pods get: the device plugin's own file, in which a wrong node gives them another GPU than the one that was booked."""
    causes = [
        f"the device plugin's CDI specification '{spec.path}' cannot be read: {spec.problem}"
        for spec in record.cdi.plugin_specs
        if spec.problem
    ]
    known = Counter(gpu.uuid for gpu in record.nvml.gpus)
    return causes + [
        wrong
        for spec in record.cdi.plugin_specs
        for gpu in record.nvml.gpus
        for name in (str(gpu.index), gpu.uuid)
        # Of a UUID that two GPUs have, nodes.gpu-count tells.
        if name in spec.nodes and gpu.minor is not None and known[gpu.uuid] == 1
        if (wrong := _astray(spec, str(name), gpu.label, {gpu.minor}))
    ]


def _astray(spec: CdiSpec, name: str, label: str, own: Set[int]) -> str:
    """What a device of a specification gives, if that is not its own; empty if it is."""
    nodes = spec.nodes[name]
    if all(_is_one_of(node, own) for node in nodes) and {_number(node.source) for node in nodes} == own:
        return ""
    gives = ", ".join(_words(node) for node in nodes) or "no GPU's device node"
    return f"CDI device '{name}' of '{spec.path}' gives {gives}, but {label} is {_paths(own)}"


def _number(path: str) -> int | None:
    matched = re.search(r"/dev/nvidia(\d+)$", path)
    return int(matched.group(1)) if matched else None


def _is_one_of(node: CdiNode, minors: Set[int]) -> bool:
    number = _number(node.source)
    return number in minors and _number(node.path) == number and node.numbers in (None, f"{MAJOR}:{number}")


def _words(node: CdiNode) -> str:
    source = "" if node.source == node.path else f" made of {node.source}"
    return f"{node.path}{source}{f' with numbers {node.numbers}' if node.numbers else ''}"


def _paths(minors: Set[int]) -> str:
    return ", ".join(f"/dev/nvidia{minor} ({MAJOR}:{minor})" for minor in sorted(minors))
