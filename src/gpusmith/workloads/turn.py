"""A workload's turn: whether a node can be given to it, its work on its nodes, and a finding for each, whatever happens."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpusmith.checks.findings import Finding, NotApplicable, Outcome, Skip, merge
from gpusmith.errors import GpusmithError
from gpusmith.workloads.judge import Judged, last_words
from gpusmith.workloads.node import ALL_POD, NodeUnderTest
from gpusmith.workloads.outcome import not_applicable, not_made, not_now
from gpusmith.workloads.pods import Pods
from gpusmith.workloads.register import ALL, Workload
from gpusmith.workloads.targets import NotTested
from gpusmith.workloads.waiting import Contended, PodProblem

ONE_PART = "in one pod with one {} of one GPU: a pod gets no more of this node"


def applies(workload: Workload, node: NodeUnderTest) -> bool:
    """Whether the work suits how a node hands its GPUs out; if not, the node's finding says why."""
    why = unfit(workload, node)
    if why:
        node.record(not_applicable(workload.check, node.host, why))
    return not why


def unfit(workload: Workload, node: NodeUnderTest) -> str:
    """What work needs that no part of a GPU gives; empty if nothing."""
    if not (workload.gpus and node.layout.shared):
        return ""
    part = node.layout.part
    if workload.nodes > 1 and node.layout.profile:
        return f"its GPUs are handed out in {part}s, and a job over several nodes is for whole GPUs"
    if workload.nodes > 1:
        return "its GPUs are handed out in shares, which promise no part of a GPU's time or memory to a job over several nodes"
    if isinstance(workload.gpus, int) and workload.gpus > 1:
        return f"its GPUs are handed out in {part}s: a pod gets one {part} of one GPU, and {workload.gpus} GPUs are needed"
    return ""


def is_ready(workload: Workload, node: NodeUnderTest, *, just_seen: bool = False) -> bool:
    """Whether a node can be given to a workload now; if not, the node's finding says why.

    Args:
        workload: whose turn it is.
        node: as it was looked at last.
        just_seen: that was now; else it is looked at again, since others take and free GPUs at any time.
    """
    blocked = next((node.blocked[name] for name in workload.after if name in node.blocked), None)
    if blocked is not None:
        node.blocked[workload.check] = blocked
        if workload.start is None:
            node.record(not_made(workload.check, node.host, *blocked))
            return False
    if not workload.gpus:
        return True
    if not applies(workload, node):
        return False
    why = (None if just_seen else node.refresh()) or _too_few(workload, node)
    if why is None:
        return True
    node.outcome.kept_back = node.outcome.kept_back or not why.is_failure
    _record(workload, node, not_now(workload.check, node.host, why))
    node.say(f"{node.host.name}: {workload.check}: {why.reason}")
    return False


def _too_few(workload: Workload, node: NodeUnderTest) -> NotTested | None:
    if workload.gpus == ALL or node.free >= workload.gpus:
        return None
    reason = f"Not tested: {node.free} GPUs of node '{node.view.name}' are free, {workload.gpus} are needed."
    return NotTested(reason, False)


def _record(workload: Workload, node: NodeUnderTest, finding: Finding) -> None:
    node.record(finding)
    blocks = workload.blocks(finding)
    if blocks and workload.check not in node.blocked:
        node.blocked[workload.check] = blocks, finding


def pods_of(workload: Workload, node: NodeUnderTest) -> Pods:
    """The pods of a workload on a node, none of them made yet."""
    if not (workload.gpus and node.layout.shared):
        return Pods(node, workload.image, node.free if workload.gpus == ALL else workload.gpus)
    if not workload.every_share:
        return Pods(node, workload.image, 1, notes=[ONE_PART.format(node.layout.part)])
    count = node.pods_at_once
    few = f"the node takes {count} pods more, and has {node.free} free {node.layout.part}s"
    return Pods(node, workload.image, count, notes=[few] if count < node.free else [])


@dataclass
class Turn:
    """One workload on the nodes that it was given.

    Attributes:
        workload: what is done.
        pods: of each of its nodes.
        trouble: why its pods could not be started early; None if they could, or start at its turn.
    """

    workload: Workload
    pods: Sequence[Pods]
    trouble: Exception | None = field(default=None, init=False)

    @property
    def nodes(self) -> list[NodeUnderTest]:
        """Its nodes."""
        return [pods.node for pods in self.pods]

    @property
    def title(self) -> str:
        """The work in words, which count what pods get."""
        pods, title = self.pods[0], self.workload.title
        return title.replace("GPU", pods.node.layout.part).format(gpus=pods.gpus)

    @property
    def _about(self) -> str:
        names = ", ".join(f"'{node.host.name}'" for node in self.nodes)
        return f"Node{'s' if len(self.pods) > 1 else ''} {names}: {self.title}"

    def start(self) -> None:
        """Make the pods that start before the first workload; trouble with them is told at its turn."""
        assert self.workload.start is not None
        try:
            for pods in self.pods:
                self.workload.start(pods)
        except Exception as error:  # noqa: BLE001 - a fault of ours in one workload must not take the others along
            self.trouble = error

    def take(self) -> None:
        """Do the work, give its GPUs back, and record what came of it."""
        check, begin = self.workload.check, time.monotonic()
        for pods in self.pods:
            # From before the work on, so that an interruption finds them.
            pods.node.releases[check] = pods.release
        found = self._found()
        if not self.workload.keeps:
            for node in self.nodes:
                node.releases.pop(check)()
        spent = time.monotonic() - begin
        for pods in self.pods:
            if isinstance(found, Finding):
                _record(self.workload, pods.node, replace(found, target=pods.node.host.name))
                continue
            finding = found[pods.node.host.name]
            seen = {"made_again": pods.made_again, "notes": pods.notes}
            how = {name: rows for name, rows in seen.items() if rows}
            finding = replace(finding, evidence={**finding.evidence, **how}, duration_s=spent)
            _record(self.workload, pods.node, finding)
            pods.node.say(f"{finding.target}: {self.title}: {finding.outcome.value}, {spent:.1f} s")

    def _found(self) -> Finding | dict[str, Finding]:
        """A finding that took no pods, or one of each node by its name."""
        try:
            if self.trouble is not None:
                raise self.trouble
            judged = self.workload.run(*self.pods)
            if isinstance(judged, Finding):
                return judged
            return {node.host.name: self._judged(judged, node) for node in self.nodes}
        except NotApplicable as why:
            return self._each(Outcome.SKIPPED, str(why), "", skip=why.skip)
        except Contended as error:
            return self._contended(error)
        except PodProblem as error:
            return self._problem(error)
        except GpusmithError as error:
            return self._each(Outcome.ERROR, error.message, error.hint)
        except Exception as error:  # noqa: BLE001 - a fault of ours on one node must not take the others along
            cause = f"{type(error).__name__}: {error}"
            return self._each(Outcome.ERROR, cause, "Report this as a fault of gpusmith.")

    def _each(
        self,
        outcome: Outcome,
        cause: str,
        step: str,
        evidence: Mapping[str, Any] | None = None,
        skip: Skip | None = None,
    ) -> dict[str, Finding]:
        """The same of each node."""
        check, said = self.workload.check, f"{self._about}: {cause}"
        hosts = [node.host for node in self.nodes]
        return {
            host.name: Finding(
                check, host.name, outcome, said, evidence or {}, step, host.simulated, skip=skip
            )
            for host in hosts
        }

    def _judged(self, judged: Judged, node: NodeUnderTest) -> Finding:
        check, host = self.workload.check, node.host
        proved = not judged.of_host or all(row.target.devices is not None for row in self.nodes)
        if judged.tested and (node.target.devices is not None or node.target.by_pods):
            node.outcome.tested = tuple(judged.tested)
        if proved or judged.problems:
            told = {"compared_with": ALL_POD} if judged.of_host and node.target.by_pods else {}
            return merge(check, host.name, judged.problems, host.simulated, {**judged.evidence, **told})
        if node.target.by_pods:
            return self._not_compared(judged, node)
        # UUIDs from pods alone, which cannot be compared with the host's.
        cause = (
            f"Node '{host.name}': the GPUs that pods named cannot be compared with the host's, whose record could not be read;"
            " see nodes.reachable."
        )
        return Finding(
            check, host.name, Outcome.SKIPPED, cause, judged.evidence, "", host.simulated, skip=Skip.BLOCKED
        )

    def _not_compared(self, judged: Judged, node: NodeUnderTest) -> Finding:
        """UUIDs of a node whose machine nobody asks, and of which no pod had all GPUs."""
        host = node.host
        cause = f"Node '{host.name}': the GPUs that pods named cannot be compared: no pod had all GPUs of the node."
        skip = Skip.LEFT_OUT if node.view.busy(node.target.offers) else Skip.BLOCKED
        step = "Run the suite again when nobody holds GPUs of the node."
        return Finding(
            self.workload.check,
            host.name,
            Outcome.SKIPPED,
            cause,
            judged.evidence,
            step,
            host.simulated,
            skip=skip,
        )

    def _problem(self, error: PodProblem) -> dict[str, Finding]:
        evidence = {"log": last_words(error.log)} if error.log else {}
        return self._each(Outcome.FAILED, f"{error.message.rstrip('.')}.", error.hint, evidence)

    def _contended(self, error: Contended) -> dict[str, Finding]:
        """Left out if others took or freed GPUs, or a node, meanwhile; else it is a problem like any other."""
        whys = []
        try:
            for pods in self.pods:
                why = pods.node.by_others([task.name for task in pods.tasks])
                pods.node.outcome.kept_back = pods.node.outcome.kept_back or bool(why)
                whys += [why] if why else []
        except GpusmithError as trouble:
            return self._each(Outcome.ERROR, trouble.message, trouble.hint)
        if not whys and error.theirs:
            return self._each(Outcome.ERROR, error.message, error.hint)
        if not whys:
            return self._problem(error)
        cause = f"left out: {'; '.join(whys)}: {error.message.rstrip('.')}."
        return self._each(
            Outcome.SKIPPED, cause, "Run the suite again when the node is free.", skip=Skip.LEFT_OUT
        )
