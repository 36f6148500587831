"""MIG: GPUs are divided as the node's layout says, by NVML and after the next boot; nobody else divides them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpusmith.data.mig import Placement
from gpusmith.data.operands import DEVICE_PLUGIN
from gpusmith.expect import steps
from gpusmith.probe.layout import PATH, GpuLayout
from gpusmith.probe.nvml import Gpu
from gpusmith.probe.record import Record
from gpusmith.problems import Problem
from gpusmith.wanted import layouts
from gpusmith.wanted.layouts import Layout
from gpusmith.wanted.node import NodeWanted

FILE = PATH
UNIT = "gpusmith-gpu-layout"
PENDING = "will be in MIG mode after its next reset"


def divided(record: Record, node: str) -> list[Problem]:
    """GPUs that are in MIG mode, or will be, and not by gpusmith."""
    if ours(record.gpu_layout):
        return []
    return [
        Problem(
            f"Node '{node}': {gpu.label} {'is in MIG mode' if gpu.mig_mode == 'enabled' else PENDING},"
            " the inventory counts whole GPUs.",
            switch_off(node, gpu),
            _modes(gpu),
        )
        for gpu in _in_mig(record)
    ]


def ours(file: GpuLayout | None) -> bool:
    """Whether gpusmith divides the GPUs of a machine."""
    return file is not None and bool(file.starts)


def _in_mig(record: Record) -> list[Gpu]:
    return [
        gpu for gpu in record.nvml.gpus if not gpu.error and "enabled" in (gpu.mig_mode, gpu.mig_mode_pending)
    ]


def _modes(gpu: Gpu) -> dict[str, object]:
    return {"gpu": gpu.index, "uuid": gpu.uuid, "mig": gpu.mig_mode, "mig_pending": gpu.mig_mode_pending}


def switch_off(node: str, gpu: Gpu) -> str:
    """How a GPU that others divided becomes whole."""
    return f"Drain '{node}' and run 'nvidia-smi -i {gpu.index} -mig 0', then reset the GPU."


# --- what a layout asks for ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wanted:
    """What is to be on a machine.

    Attributes:
        node: its name in the inventory.
        layout: of its GPUs.
        placements: of the instances on each GPU; none without MIG.
        ours: whether playbooks/change_layout.yml may repair it.
        ignored: GPUs that nobody divides, as the inventory has them.
    """

    node: str
    layout: Layout
    placements: tuple[Placement, ...] = ()
    ours: bool = True
    ignored: tuple[str, ...] = ()

    @property
    def file(self) -> GpuLayout | None:
        """What the file says; None if there is none."""
        if not self.placements:
            return None
        starts = tuple(row.start for row in self.placements)
        return GpuLayout(
            profile=self.layout.profile,
            nvml=self.placements[0].profile.nvml,
            starts=starts,
            ignored=self.ignored,
        )


def wanted(host: NodeWanted, layout: Layout) -> Wanted:
    """What is to be on a host's machine with a layout, its inventory's or its Node's.

    Raises:
        InputError: GPUs of its model cannot be divided so, or nothing is known of it.
    """
    return Wanted(
        host.name,
        layout,
        layouts.placements(layout, host.gpu_model, host.gpu_models),
        DEVICE_PLUGIN in host.operands.ours,
        host.gpus_ignored,
    )


def problems(record: Record, want: Wanted) -> list[Problem]:
    """GPUs that are divided otherwise or do not say, and a file by which a boot would divide them otherwise."""
    return [*_of_gpus(record, want), *_of_file(record, want)]


def _of_gpus(record: Record, want: Wanted) -> Iterator[Problem]:
    for gpu in record.nvml.gpus:
        if gpu.error:
            continue
        about = f"Node '{want.node}': {gpu.label}"
        if "mig_mode" in gpu.unreadable:
            yield Problem(
                f"{about}: whether it is in MIG mode cannot be read, NVML says: {gpu.unreadable['mig_mode']}.",
                f"Run 'nvidia-smi -q -i {gpu.index}' on '{want.node}'.",
                _modes(gpu),
            )
        elif seen := _differs(gpu, want):
            found = [] if gpu.instances is None else [vars(row) for row in gpu.instances]
            to_be = _at((row.profile.name, row.start) for row in want.placements) or "whole"
            yield Problem(
                f"{about} {seen}, it is to be {to_be}.", _step(want, gpu), {**_modes(gpu), "instances": found}
            )


def _differs(gpu: Gpu, want: Wanted) -> str:
    """How a GPU is divided, in words, if that is not what is wanted."""
    now, later = gpu.mig_mode == "enabled", gpu.mig_mode_pending == "enabled"
    if not want.placements:
        if now:
            return f"is in MIG mode, with {_instances(gpu, want) or 'no instance'}"
        return PENDING if later else ""
    if not now:
        return PENDING if later else "is not in MIG mode"
    if not later and gpu.mig_mode_pending is not None:
        return "will not be in MIG mode after its next reset"
    if gpu.instances is None:
        return f"does not tell its MIG instances, NVML says: {gpu.unreadable.get('instances', 'nothing')}"
    there = sorted((row.start, row.profile) for row in gpu.instances)
    if there != sorted((row.start, row.profile.nvml) for row in want.placements):
        return f"is divided into {_instances(gpu, want) or 'no instance'}"
    without = [f"{row.gpu_instance} (at {row.start})" for row in gpu.instances if not row.uuid]
    return f"has no MIG device for GPU instance {', '.join(without)}" if without else ""


def _instances(gpu: Gpu, want: Wanted) -> str:
    """Those that are there; of other profiles than the wanted one, by their names in NVML."""
    names = {row.profile.nvml: row.profile.name for row in want.placements}
    return _at((names.get(row.profile, row.profile), row.start) for row in gpu.instances or ())


def _at(rows: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} at {start}" for name, start in sorted(rows, key=lambda row: row[1]))


def _of_file(record: Record, want: Wanted) -> Iterator[Problem]:
    if _words(record.gpu_layout) == _words(want.file):
        yield from _of_unit(record, want)
        return
    has, to_be = _words(record.gpu_layout), _words(want.file)
    yield Problem(
        f"Node '{want.node}': by '{FILE}' its GPUs will be {has} after a boot, and are to be {to_be}.",
        _step(want),
        {
            "file": vars(record.gpu_layout) if record.gpu_layout else None,
            "wanted": vars(want.file) if want.file else None,
        },
    )


def _of_unit(record: Record, want: Wanted) -> Iterator[Problem]:
    """That boots go by the file. Records of older releases do not tell."""
    unit = record.services.get(UNIT)
    if want.placements and unit and unit.enabled != "enabled":
        cause = f"Node '{want.node}': unit '{UNIT}', which divides its GPUs at a boot, is {unit.enabled}."
        yield Problem(cause, _step(want), {"unit": UNIT, "enabled": unit.enabled})


def _words(file: GpuLayout | None) -> str:
    if file is None or not ours(file):
        return "whole"
    without = f", but for {', '.join(sorted(map(str.lower, file.ignored)))}" if file.ignored else ""
    return f"{file.profile} ({file.nvml}) at {', '.join(map(str, file.starts))}{without}"


def _step(want: Wanted, gpu: Gpu | None = None) -> str:
    if want.ours:
        return steps.repair_layout(want.node)
    return switch_off(want.node, gpu) if gpu else f"Remove '{FILE}' from '{want.node}'."
