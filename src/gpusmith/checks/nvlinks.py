"""Check of the nodes tier on NVLinks: as many as the model has, up, and as fast as its generation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpusmith.checks import gpu_values
from gpusmith.checks.findings import NotApplicable
from gpusmith.checks.register import check
from gpusmith.data import baselines
from gpusmith.expect.fabric import WHOLE_BOARD
from gpusmith.node.facts import NodeFacts
from gpusmith.probe.nvml import Gpu
from gpusmith.problems import Problem

OFF = "NvLinkDisable"
"""Parameter of the kernel module."""
STEP = "Look at 'nvidia-smi nvlink --status' and nodes.xid; a link that does not recover is a matter for the machine's vendor."


def _expected(facts: NodeFacts) -> int | None:
    """How many links must be up; None if a bridge, or whoever divides the board among virtual machines, decides that."""
    record = facts.record
    whole = len(record.pci.gpus) >= WHOLE_BOARD or not record.host.virtual
    return facts.model.nvlinks if facts.model is not None and whole else None


def _slowest(facts: NodeFacts) -> float:
    """MB/s that each link has at the least; 0 if nothing is known."""
    model = facts.model
    row = baselines.of_file().models.get(model.key) if model is not None else None
    if model is None or row is None or not row.nvlink_gb_s or not model.nvlinks:
        return 0.0
    return 1000 * row.nvlink_gb_s / 2 / model.nvlinks * baselines.of_file().nvlink_share


def _problems(facts: NodeFacts, gpu: Gpu, expected: int | None) -> Iterator[Problem]:
    links, rates, slowest = gpu.nvlinks or (), gpu.nvlink_mbps or (), _slowest(facts)
    label, seen = f"Node '{facts.host.name}': {gpu.label}", {"gpu": gpu.index, "uuid": gpu.uuid}
    down = [number for number, up in enumerate(links) if not up]
    if expected and len(links) - len(down) < expected:
        named = f"; down: {', '.join(map(str, down))}" if down else ""
        cause = f"{label} has {len(links) - len(down)} NVLinks up of {expected} of its model{named}."
        yield Problem(cause, STEP, {**seen, "nvlinks_down": down})
    slow = [number for number, rate in enumerate(rates) if 0 < rate < slowest and number not in down]
    if slow:
        cause = f"{label}: NVLinks {', '.join(map(str, slow))} run at {min(rates[number] for number in slow)} MB/s"
        yield Problem(f"{cause}, {slowest:.0f} must be.", STEP, {**seen, "nvlink_mbps": list(rates)})


def evidence(facts: NodeFacts) -> Mapping[str, Any]:
    """What NVML says of each GPU."""
    return {
        "nvlinks": {
            gpu.uuid or str(gpu.index): {
                "up": sum(gpu.nvlinks),
                "of": len(gpu.nvlinks),
                "mbps": sorted(set(gpu.nvlink_mbps or ())),
            }
            for gpu in facts.record.nvml.gpus
            if gpu.nvlinks
        }
    }


def _seen(gpus: Sequence[Gpu]) -> str:
    """'12 of 12', or all that differ."""
    return ", ".join(sorted({f"{sum(gpu.nvlinks or ())} of {len(gpu.nvlinks or ())}" for gpu in gpus}))


@check(
    "nodes.nvlinks",
    place=145,
    proves="as many NVLinks of every GPU are up as its model has, and none is slower than its generation",
    fails_when=(
        "NVML shows fewer links up than data/gpus.yml has for the model, or a rate below data/baselines.yml; in virtual machines"
        " with a part of a board, the number is not judged"
    ),
    do="look at 'nvidia-smi nvlink --status'; a link that does not recover is a matter for the vendor",
    evidence=evidence,
)
def nvlinks(facts: NodeFacts) -> list[Problem]:
    """Number and rate.

    Raises:
        NotApplicable: the site has switched them off, or nothing says how many there are.
    """
    node, expected = facts.host.name, _expected(facts)
    if (facts.record.module.parameters or {}).get(OFF) == "1":
        raise NotApplicable(f"Node '{node}': not applicable: its driver was loaded with '{OFF}'.")
    gpus = facts.record.nvml.gpus
    if gpus and all(gpu.mig_mode == "enabled" for gpu in gpus):
        # MIG user guide, 'Application Considerations': no peer-to-peer between GPUs, by PCIe or NVLink.
        raise NotApplicable(
            f"Node '{node}': not applicable: MIG instances, into which its GPUs are divided, use no NVLinks."
        )
    missing = (
        f"model '{facts.model.key}' has {expected} NVLinks" if facts.model is not None and expected else ""
    )
    values = gpu_values.sort(facts, ("nvlinks",), "NVLinks", missing)
    found = values.judged([problem for gpu in values.known for problem in _problems(facts, gpu, expected)])
    if not found and expected is None:
        known = facts.model is not None and facts.model.nvlinks
        why = (
            "a virtual machine with a part of a board has the NVLinks that its host gives it"
            if known
            else "nothing says how many NVLinks its GPUs have"
        )
        raise NotApplicable(f"Node '{node}': not applicable: {why}; up are {_seen(values.known)}.")
    return found
