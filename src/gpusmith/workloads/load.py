"""What slowed GPUs down while the CUDA workload loaded all of them at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpusmith.checks.findings import Finding, Outcome, Skip, merge
from gpusmith.checks.health import SLOWDOWNS
from gpusmith.inventory.host import Host
from gpusmith.probe.nvml import THROTTLE_REASONS
from gpusmith.problems import Problem

CHECK = "workloads.throttle"
NOT_SUPPORTED = 3
"""NVML's code for a value that a GPU does not have."""
STEP = "Look at 'nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER' under load, and at the machine's cooling and power supply."


def judge(host: Host, cuda: Finding) -> Finding | None:
    """The finding, from what the CUDA program saw; None if it saw nothing.

    Args:
        host: what the inventory says.
        cuda: finding of the CUDA workload.
    """
    rows: Mapping[str, Mapping[str, int]] = cuda.evidence.get("slowdowns") or {}
    if not rows:
        return None
    without = sorted(uuid for uuid, row in rows.items() if not row.get("looks"))
    if len(without) == len(rows) and all(row.get("code") == NOT_SUPPORTED for row in rows.values()):
        cause = (
            f"Node '{host.name}': not applicable: NVML does not tell reasons for slow clocks of these GPUs."
        )
        return Finding(
            CHECK, host.name, Outcome.SKIPPED, cause, simulated=host.simulated, skip=Skip.NOT_APPLICABLE
        )
    problems = [problem for uuid, row in sorted(rows.items()) for problem in _of_gpu(host.name, uuid, row)]
    evidence: dict[str, Any] = {
        "load_s": cuda.evidence.get("load_s"),
        "reasons": {uuid: _reasons(row) for uuid, row in rows.items()},
    }
    return merge(CHECK, host.name, problems, host.simulated, evidence)


def _of_gpu(node: str, uuid: str, row: Mapping[str, int]) -> list[Problem]:
    if not row.get("looks"):
        cause = f"Node '{node}': NVML does not say in a pod what slows {uuid} down: it answers code {row.get('code')}."
        return [Problem(cause, "Compare with nodes.throttle, which asks NVML on the node itself.")]
    reasons = [reason for reason in _reasons(row) if reason in SLOWDOWNS]
    if not reasons:
        return []
    why = " and ".join(SLOWDOWNS[reason] for reason in reasons)
    return [Problem(f"Node '{node}': {uuid} is throttled under load ({', '.join(reasons)}): {why}.", STEP)]


def _reasons(row: Mapping[str, int]) -> list[str]:
    return [text for bit, text in THROTTLE_REASONS.items() if row.get("reasons", 0) & bit]
