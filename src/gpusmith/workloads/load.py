"""What slowed GPUs down while the CUDA workload loaded all of them at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpusmith.checks.findings import Finding, Outcome, Skip, merge
from gpusmith.checks.health import SLOWDOWNS
from gpusmith.probe.nvml import THROTTLE_REASONS
from gpusmith.problems import Problem
from gpusmith.wanted.node import NodeWanted
from gpusmith.workloads.outcome import not_made
from gpusmith.workloads.pods import Pods
from gpusmith.workloads.register import workload

CHECK = "workloads.throttle"
NOT_SUPPORTED = 3
"""NVML's code for a value that a GPU does not have."""
STEP = "Look at 'nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER' under load, and at the machine's cooling and power supply."


@workload(
    CHECK,
    place=35,
    proves="no GPU is slowed down by heat, hardware or power while the CUDA workload loads all free GPUs of the node at once",
    fails_when="NVML in the pod names such a reason for a GPU, or cannot be asked; a power cap does not count",
    do="look at 'nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER' under load, at the cooling and the power supply",
    title="throttle",
    gpus=0,
    after=["workloads.cuda"],
)
def run(pods: Pods) -> Finding:
    """No pod of its own: the CUDA program has looked while it loaded the GPUs."""
    host, computed = pods.node.host, pods.node.findings["workloads.cuda"]
    cause = "the CUDA workload did not come so far; see workloads.cuda."
    return judge(host, computed) or not_made(CHECK, host, cause, computed)


def judge(host: NodeWanted, computed: Finding) -> Finding | None:
    """The finding, from what the CUDA program saw; None if it saw nothing.

    Args:
        host: what the inventory says.
        computed: finding of the CUDA workload.
    """
    rows: Mapping[str, Mapping[str, int]] = computed.evidence.get("slowdowns") or {}
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
        "load_s": computed.evidence.get("load_s"),
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
