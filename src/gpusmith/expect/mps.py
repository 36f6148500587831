"""MPS: it runs where the node's layout has it, and nothing of it is left where it does not.

NVIDIA's control daemon puts GPUs into a compute mode in which only its own server computes on them, and takes that back when it
ends (k8s-device-plugin 0.19.0, cmd/mps-control-daemon/mps/daemon.go). One that is killed takes nothing back.
"""

from __future__ import annotations

from gpusmith.data.operands import MPS_DAEMON
from gpusmith.probe.nvml import Gpu
from gpusmith.probe.record import Record
from gpusmith.problems import Problem
from gpusmith.wanted import layouts
from gpusmith.wanted.node import NodeWanted

DEFAULT, EXCLUSIVE = "default", "exclusive_process"


def problems(record: Record, host: NodeWanted) -> list[Problem]:
    """What is wrong for the layout of a host."""
    return of_layout(record, host) if host.layout.mps else left(record, host.name)


def left(record: Record, node: str) -> list[Problem]:
    """GPUs on which not every process may compute, beside what a daemon left. Without that, the mode is a site's own."""
    if record.mps is None or not record.mps.left:
        return []
    return [
        Problem(
            f"Node '{node}': {gpu.label} is in compute mode {_words(gpu)}, {_means(gpu)}. MPS's control daemon leaves that when"
            " it is killed.",
            f"If no MPS of your own runs there, run on '{node}': nvidia-smi -i {gpu.index} -c DEFAULT",
            _modes(gpu),
        )
        for gpu in record.nvml.gpus
        if gpu.compute_mode not in (None, DEFAULT)
    ]


def of_layout(record: Record, host: NodeWanted) -> list[Problem]:
    """A control daemon that does not run, and GPUs that it does not have to itself."""
    name = layouts.daemon_set(MPS_DAEMON, host.layout)
    if record.mps is not None and not record.mps.controls:
        return [
            Problem(
                f"Node '{host.name}': MPS's control daemon does not run, so that no pod with a share can use its GPU.",
                f"Look at the node's pod of '{name}': kubectl -n {host.operands.namespace} get pods -o wide",
                {"compute_modes": {gpu.label: gpu.compute_mode for gpu in record.nvml.gpus}},
            )
        ]
    return [
        Problem(
            f"Node '{host.name}': {gpu.label} is in compute mode {_words(gpu)}: programs that are no clients of MPS can compute"
            " on it as well, beside its limits.",
            f"Run on '{host.name}': nvidia-smi -i {gpu.index} -c EXCLUSIVE_PROCESS",
            _modes(gpu),
        )
        for gpu in record.nvml.gpus
        if gpu.compute_mode not in (None, EXCLUSIVE)
    ]


def _words(gpu: Gpu) -> str:
    """As nvidia-smi takes it."""
    return str(gpu.compute_mode).upper()


def _means(gpu: Gpu) -> str:
    return (
        "so that one process alone can compute on it"
        if gpu.compute_mode == EXCLUSIVE
        else "and not free for all"
    )


def _modes(gpu: Gpu) -> dict[str, object]:
    return {"gpu": gpu.index, "uuid": gpu.uuid, "compute_mode": gpu.compute_mode}
