"""CDI specifications: made for the loaded driver, with every GPU under its own device node, and from one source."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import combinations
from typing import Any

from gpusmith.expect.devices import MAJOR
from gpusmith.expect.wanted import Cdi
from gpusmith.probe.cdi import CdiNode, CdiSpec
from gpusmith.probe.nvml import Gpu
from gpusmith.probe.record import Record
from gpusmith.problems import Cure, Problem
from gpusmith.wording import shorten

PLUGIN_FOLDERS = ("/var/run/cdi", "/run/cdi")
"""Where the device plugin writes: one folder, by both of its names."""
UNREAD_FOLDER = (
    "Find the file that sets 'cdi_spec_dirs' with 'grep -rn cdi_spec_dirs /etc/containerd' on '{node}', and add"
    f" '{PLUGIN_FOLDERS[0]}' there."
)


def _winners(specs: Sequence[CdiSpec]) -> dict[str, CdiSpec]:
    """The specification that each name is taken from: CDI lets a later folder win."""
    return {name: spec for spec in sorted(specs, key=lambda row: row.priority) for name in spec.names}


def _shadowed_by(spec: CdiSpec, winners: Mapping[str, CdiSpec]) -> list[str]:
    """Paths of what takes names from a specification."""
    return sorted({winners[name].path for name in spec.names} - {spec.path})


def evidence(record: Record) -> dict[str, Any]:
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


def problems(record: Record, wanted: Cdi) -> list[Problem]:
    """What is wrong with the specifications that containerd reads."""
    node, seen = wanted.node, evidence(record)
    if not record.cdi.specs and not wanted.required:
        return []
    if not record.cdi.specs:
        return [
            Problem(
                f"Node '{node}': there is no CDI specification for nvidia.com/gpu.",
                _again(wanted, [])[0],
                seen,
                Cure.CDI,
            )
        ]
    unread = [_unread(spec, wanted, seen) for spec in record.cdi.specs if spec.problem]
    if unread:
        return unread
    causes = [*_of_driver(record), *_of_gpus(record)]
    return [
        *(
            Problem(f"Node '{node}': {cause}.", step, seen, cure)
            for cause, step, cure in _conflicts(record.cdi.specs, wanted)
        ),
        *(Problem(f"Node '{node}': {cause}.", *_how(wanted, paths, seen)) for cause, paths in causes),
    ]


def plugin(record: Record, wanted: Cdi) -> list[Problem]:
    """What pods get: the device plugin's own file, which it writes once, when it starts."""
    seen = evidence(record)
    if elsewhere := _folders_without_plugins(record, wanted):
        return [Problem(elsewhere, UNREAD_FOLDER.format(node=wanted.node), seen)]
    step, cure = "Have the owner of the device plugin restart it, which writes it anew.", Cure.PERSON
    if wanted.restart_plugin:
        step, cure = (
            f"Run site.yml, which restarts the device plugin, or do so: {wanted.restart_plugin}",
            Cure.PLUGIN,
        )
    causes = [*_missing_of_plugin(record, wanted), *_gpus_of_plugin(record)]
    return [Problem(f"Node '{wanted.node}': {cause}.", step, seen, cure) for cause in causes]


def _folders_without_plugins(record: Record, wanted: Cdi) -> str:
    """That containerd does not look where our plugin writes, which no restart of the plugin changes; empty if it does."""
    folders = record.containerd.effective.cdi_spec_dirs
    if not wanted.restart_plugin or not folders or any(folder in PLUGIN_FOLDERS for folder in folders):
        return ""
    return (
        f"Node '{wanted.node}': containerd reads CDI specifications in {shorten(folders, most=8)}, and the device plugin writes"
        f" its own to '{PLUGIN_FOLDERS[0]}', so no new pod gets a GPU."
    )


def _missing_of_plugin(record: Record, wanted: Cdi) -> list[str]:
    """GPUs of a node that serves that our device plugin's file does not have; whether another's has one is its owner's matter."""
    if not wanted.restart_plugin or not record.kubernetes.joined:
        return []
    gpus = [gpu for gpu in record.nvml.gpus if not gpu.error]
    if gpus and not record.cdi.plugin_specs:
        return ["there is no CDI specification of the device plugin, so no new pod gets a GPU"]
    if any(spec.problem for spec in record.cdi.plugin_specs):
        return []
    there = {name for spec in record.cdi.plugin_specs for name in spec.names}
    return [
        f"{gpu.label} is not in the device plugin's CDI specification"
        for gpu in gpus
        if not _is_in(gpu, there)
    ]


def _again(wanted: Cdi, paths: Iterable[str]) -> tuple[str, Cure]:
    """How specifications are made anew: that of the toolkit's role by site.yml, those of others by whoever made them."""
    foreign = sorted(path for path in set(paths) if not wanted.is_ours(path))
    if not foreign:
        # The toolkit's own unit is not there before 1.18, and knows no other path than its own.
        return (
            f"Run 'nvidia-ctk cdi generate --output={wanted.spec}' on '{wanted.node}', or site.yml.",
            Cure.CDI,
        )
    named = " and ".join(map(repr, foreign))
    return f"Remove {named} on '{wanted.node}', or make it anew with 'nvidia-ctk cdi generate'.", Cure.PERSON


def _how(wanted: Cdi, paths: Iterable[str], seen: Mapping[str, Any]) -> tuple[str, Mapping[str, Any], Cure]:
    step, cure = _again(wanted, paths)
    return step, seen, cure


def _unread(spec: CdiSpec, wanted: Cdi, seen: Mapping[str, Any]) -> Problem:
    ours = wanted.is_ours(spec.path)
    return Problem(
        f"Node '{wanted.node}': CDI specification '{spec.path}' cannot be read: {spec.problem}.",
        f"Compare it with 'nvidia-ctk cdi generate' on '{wanted.node}', which writes what can be read;"
        f" remove it{' or run site.yml' if ours else ''}.",
        seen,
        Cure.CDI if ours else Cure.PERSON,
    )


def _conflicts(specs: Sequence[CdiSpec], wanted: Cdi) -> list[tuple[str, str, Cure]]:
    """Names that CDI refuses: given twice by one folder, even if a later folder has them as well."""
    node, found = wanted.node, []
    for spec in specs:
        twice = [name for name, count in Counter(spec.names).items() if count > 1]
        if twice:
            ours = wanted.is_ours(spec.path)
            make = f"Make '{spec.path}' anew on '{node}': 'nvidia-ctk cdi generate --output={spec.path}'"
            found.append(
                (
                    f"CDI specification '{spec.path}' has {shorten(twice, most=8)} twice, so CDI refuses all of it",
                    f"{make}, or run site.yml." if ours else f"{make}.",
                    Cure.CDI if ours else Cure.PERSON,
                )
            )
    for one, other in combinations(specs, 2):
        both = [name for name in one.nodes if name in other.nodes]
        if both and one.priority == other.priority:
            shared = shorten(both, most=8)
            found.append(
                (
                    f"CDI specifications '{one.path}' and '{other.path}' both have {shared}, so CDI refuses these names",
                    f"Remove one of them on '{node}'; role nvidia_container_toolkit writes 'nvidia_container_toolkit_cdi_spec'.",
                    Cure.PERSON,
                )
            )
    return found


def _of_driver(record: Record) -> list[tuple[str, list[str]]]:
    """A name that is taken from a specification of another driver mounts libraries that are not there."""
    winners, loaded = _winners(record.cdi.specs), record.module.loaded_version
    causes = []
    for spec in record.cdi.specs:
        names = [name for name, winner in winners.items() if winner is spec]
        if loaded is None or not names or spec.driver_version == loaded:
            continue
        below = [
            row.path
            for row in record.cdi.specs
            if row.priority < spec.priority and set(row.names) & set(names)
        ]
        shadows = f"; it shadows {shorten(below, most=8)}" if below else ""
        cause = (
            f"CDI specification '{spec.path}' is for driver {spec.driver_version}, loaded is {loaded}"
            f" (devices {shorten(names, most=8)}){shadows}"
        )
        causes.append((cause, [spec.path]))
    return causes


def _of_gpus(record: Record) -> list[tuple[str, list[str]]]:
    """Every GPU is there, no other one is, and each name leads to its own device node; with the files that say otherwise."""
    winners, gpus, apart = _winners(record.cdi.specs), record.nvml.gpus, record.nvml.left_out
    causes: list[tuple[str, list[str]]] = [
        (f"{gpu.label} is not in the CDI specification", []) for gpu in gpus if not _is_in(gpu, winners)
    ]
    # The toolkit knows nothing of GPUs that the inventory leaves out.
    there = {name for gpu in (*gpus, *apart) for name in (str(gpu.index), *_names(gpu, winners))}
    strange = sorted(
        name for name in winners.keys() - there if name.isdigit() or name.startswith(("GPU-", "MIG-"))
    )
    # A GPU that does not answer may be one of them.
    if strange and gpus and not any(gpu.error for gpu in gpus):
        cause = f"the CDI specification has {shorten(strange, most=8)}, which is no GPU of the node"
        causes.append((cause, [winners[name].path for name in strange]))
    minors = {gpu.minor for gpu in gpus if gpu.minor is not None}
    wanted: list[tuple[str, str, Set[int]]] = [
        (name, gpu.label, {gpu.minor})
        for gpu in gpus
        for name in _names(gpu, winners)
        if name in winners and gpu.minor is not None
    ]
    if "all" in winners and len(minors) == len(gpus) > 0:
        given = {_number(node.source) for node in winners["all"].nodes["all"]}
        wanted.append(
            (
                "all",
                "the node's GPUs",
                minors | ({gpu.minor for gpu in apart if gpu.minor is not None} & given),
            )
        )
    return causes + [
        (wrong, [winners[name].path])
        for name, label, own in wanted
        if (wrong := _astray(winners[name], name, label, own))
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
        for name in _names(gpu, spec.nodes)
        # Of a UUID that two GPUs have, nodes.gpu-count tells.
        if name in spec.nodes and gpu.minor is not None and known[gpu.uuid] == 1
        if (wrong := _astray(spec, name, gpu.label, {gpu.minor}))
    ]


def _names(gpu: Gpu, names: Iterable[str]) -> list[str]:
    """Those of a GPU, by its number and by its UUID; in MIG mode those of its MIG devices, of which the toolkit numbers each."""
    if gpu.mig_mode != "enabled":
        return [str(gpu.index), *([gpu.uuid] if gpu.uuid else [])]
    return [*_parts(gpu), *(name for name in names if name.startswith(f"{gpu.index}:"))]


def _parts(gpu: Gpu) -> list[str]:
    return [part.uuid for part in gpu.instances or () if part.uuid]


def _is_in(gpu: Gpu, names: Iterable[str]) -> bool:
    """Whether a specification with these names has a GPU; in MIG mode, each of its MIG devices, and the GPU itself is none."""
    there, parts = set(names), _parts(gpu)
    if gpu.mig_mode != "enabled":
        return not there.isdisjoint(_names(gpu, ()))
    numbered = [name for name in there if name.startswith(f"{gpu.index}:")]
    return len(numbered) == len(parts) or there.issuperset(parts)


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
