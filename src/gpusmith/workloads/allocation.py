"""One pod per free GPU, or part of one, all at the same time: each gets a GPU of its own, or a part that nobody else has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from gpusmith.checks.findings import Finding, Outcome
from gpusmith.problems import Problem
from gpusmith.wanted.layouts import WHOLE, Layout
from gpusmith.workloads import holders
from gpusmith.workloads.judge import SECOND_PLUGIN, Expected, Judged, uuids_known
from gpusmith.workloads.pods import Pods
from gpusmith.workloads.register import ALL, workload


def holds_nothing(found: Finding) -> str:
    """Why no pod is made beside those that hold GPUs; empty if they do."""
    passed = "held" in found.evidence and found.outcome in (Outcome.PASSED, Outcome.SKIPPED)
    return "" if passed else "the workload before it did not pass."


@workload(
    "workloads.allocation",
    place=60,
    proves="one pod per free GPU runs at the same time, and all UUIDs are distinct and known to the host; where GPUs are handed"
    " out in shares, one pod per free share, and no GPU serves more pods than it has shares; where they are divided by MIG, one"
    " pod per free instance, each with its own. By MPS, all of these pods have a CUDA context at the same time, as its clients,"
    " and none can have more memory than a share",
    fails_when="a pod gets no GPU, two pods hold the same one (of shared GPUs: more than it has shares), or a pod holds one that"
    " the host does not know; by MPS, a pod is no client of it, or gets more memory than a share",
    do="look for a second device plugin or for time slicing; restart the device plugin",
    title="{gpus} pods with one GPU each",
    gpus=ALL,
    after=["workloads.isolation"],
    blocks=holds_nothing,
    keeps=True,
    every_share=True,
)
def run(pods: Pods) -> Judged:
    """Pods that hold their GPUs until the run ends; the evidence says which pod holds which."""
    node = pods.node
    env = {"GPUSMITH_MPS_SHARES": str(node.layout.shares)} if node.layout.mps else {}
    held = holders.at_once(pods, "hold", holders.PROGRAM, holders.judge_holder, env)
    return judge(node.expected, held, pods.gpus, node.layout, node.offer.physical)


def judge(
    expected: Expected, held: Mapping[str, str], wanted: int, layout: Layout = WHOLE, gpus: int = 0
) -> Judged:
    """As many GPUs or MIG instances as pods, all distinct, all of the host; of a GPU that is divided, as many as it has parts.

    Args:
        expected: of the node.
        held: UUIDs by the pods that hold them.
        wanted: how many pods there are.
        layout: how the node hands its GPUs out.
        gpus: how many it has; with fewer pods than parts of all of them, others hold the rest.
    """
    what = f"{wanted} pods at the same time"
    evidence = {"held": dict(held)}
    if not layout.shared:
        return Judged(evidence, uuids_known(expected, what, list(held.values()), wanted), of_host=True)
    seen = list(held.values()) if layout.profile else sorted(set(held.values()))
    problems = uuids_known(expected, what, seen, wanted if layout.profile else len(seen))
    given = Counter(gpu for uuid in held.values() for gpu in expected.gpus_of([uuid]))
    least = layout.shares if wanted == gpus * layout.shares else 0
    counts = {gpu: given[gpu] for gpu in sorted({*expected.gpus_of(expected.uuids or ()), *given})}
    if layout.profile:
        # One that the host does not know is of no GPU that is known here.
        known = {device.gpu for device in expected.devices or ()}
        counts = {gpu: count for gpu, count in counts.items() if gpu in known}
    wrong = {uuid: count for uuid, count in counts.items() if not least <= count <= layout.shares}
    if wrong:
        said = ", ".join(f"{uuid} serves {count} of them" for uuid, count in wrong.items())
        cause = f"Node '{expected.node}': {what}: {said}, and each GPU has {layout.shares} {layout.part}s."
        problems.append(Problem(cause, SECOND_PLUGIN))
    shares = {"of_each_gpu": layout.shares, "gpus": gpus, "pods": counts}
    return Judged({**evidence, "shares": shares}, problems, of_host=True)
