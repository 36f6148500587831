"""What came of one node: a finding per check, whatever happens to it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from gpusmith.checks.findings import Finding, Outcome, Skip, merge
from gpusmith.checks.register import of_tier
from gpusmith.cluster.views import NodeView
from gpusmith.errors import GpusmithError
from gpusmith.inventory.host import Host
from gpusmith.workloads.judge import Judged, last_words
from gpusmith.workloads.node import NodeUnderTest
from gpusmith.workloads.pods import Pods
from gpusmith.workloads.targets import NotTested, Target
from gpusmith.workloads.waiting import Contended, PodProblem

PER_NODE = tuple(check.id for check in of_tier("workloads") if check.per_node)

Work = Callable[[Pods], Judged]


@dataclass
class NodeOutcome:
    """What came of one node.

    Attributes:
        findings: by check id.
        tested: UUIDs that the CUDA workload ran on.
        reason: why the node was not tested at all; empty if it was.
        kept_back: somebody uses the node or keeps it back, so that what was not tested is nobody's fault.
        view: the Node object as it was when its GPUs were counted; None if it was not looked at.
    """

    findings: dict[str, Finding] = field(default_factory=dict)
    tested: tuple[str, ...] = ()
    reason: str = ""
    kept_back: bool = False
    view: NodeView | None = None


def not_tested(target: Target, why: NotTested) -> NodeOutcome:
    """What is recorded for a node that got no workload: never a pass."""
    findings = {check: _not_now(check, target.host, why) for check in PER_NODE}
    return NodeOutcome(findings, (), why.reason, not why.is_failure, target.view)


def _not_now(check: str, host: Host, why: NotTested) -> Finding:
    outcome, skip = (Outcome.FAILED, None) if why.is_failure else (Outcome.SKIPPED, Skip.LEFT_OUT)
    step = "See the checks of the nodes and cluster tiers." if why.is_failure else why.step
    return Finding(check, host.name, outcome, why.reason, {}, step, host.simulated, skip=skip)


@dataclass(frozen=True)
class NodeChecks:
    """Makes the checks of one node, and records what came of them.

    Attributes:
        node: where its pods are made.
        outcome: what came of it so far.
        kept: pods that hold GPUs for a later check.
    """

    node: NodeUnderTest
    outcome: NodeOutcome = field(default_factory=NodeOutcome)
    kept: list[Pods] = field(default_factory=list)

    def record(self, finding: Finding) -> None:
        """A finding that took no work."""
        self.outcome.findings[finding.check] = finding

    def on_gpus(self, check: str, what: Callable[[int], str], work: Work, keep: bool = False) -> Finding:
        """The same as check(), on the GPUs that are free now: others take and free some at any time.

        Args:
            check: its id.
            what: the work in words, by the number of GPUs.
            work: gets the check's pods.
            keep: as of check().
        """
        why = self.node.refresh()
        if why is None:
            return self.check(check, what(self.node.free), work, keep)
        finding = _not_now(check, self.node.host, why)
        self.outcome.kept_back = self.outcome.kept_back or not why.is_failure
        self.record(finding)
        self.node.say(f"{finding.target}: {check}: {why.reason}")
        return finding

    def release(self) -> None:
        """Give back the GPUs that were kept."""
        for pods in self.kept:
            pods.release()
        self.kept.clear()

    def check(self, check: str, what: str, work: Work, keep: bool = False) -> Finding:
        """Do a check's work, give its GPUs back, and record what came of it.

        Args:
            check: its id.
            what: the work in words.
            work: gets the check's pods.
            keep: the pods go on holding GPUs, for the next check.
        """
        begin = time.monotonic()
        pods = Pods(self.node)
        # From before the work on, so that an interruption finds it.
        self.kept.append(pods)
        finding = self._finding(check, what, work, pods)
        if not keep:
            pods.release()
            self.kept.remove(pods)
        if pods.made_again:
            finding = replace(finding, evidence={**finding.evidence, "made_again": pods.made_again})
        finding = replace(finding, duration_s=time.monotonic() - begin)
        self.record(finding)
        self.node.say(f"{finding.target}: {what}: {finding.outcome.value}, {finding.duration_s:.1f} s")
        return finding

    def _finding(self, check: str, what: str, work: Work, pods: Pods) -> Finding:
        host = self.node.host
        about = f"Node '{host.name}': {what}"
        try:
            judged = work(pods)
            if judged.tested and self.node.target.uuids is not None:
                self.outcome.tested = tuple(judged.tested)
            if judged.of_host and not judged.problems and self.node.target.uuids is None:
                return self._unproved(check, judged)
            return merge(check, host.name, judged.problems, host.simulated, judged.evidence)
        except Contended as error:
            return self._contended(check, about, error, pods)
        except PodProblem as error:
            return self._problem(check, about, error)
        except GpusmithError as error:
            cause, step = f"{about}: {error.message}", error.hint
        except Exception as error:  # noqa: BLE001 - a fault of ours on one node must not take the others along
            cause, step = f"{about}: {type(error).__name__}: {error}", "Report this as a fault of gpusmith."
        return Finding(check, host.name, Outcome.ERROR, cause, {}, step, host.simulated)

    def _unproved(self, check: str, judged: Judged) -> Finding:
        """UUIDs from pods alone, which cannot be compared with the host's."""
        host = self.node.host
        cause = (
            f"Node '{host.name}': the GPUs that pods named cannot be compared with the host's, whose record could not be read;"
            " see nodes.reachable."
        )
        return Finding(
            check, host.name, Outcome.SKIPPED, cause, judged.evidence, "", host.simulated, skip=Skip.BLOCKED
        )

    def _problem(self, check: str, about: str, error: PodProblem) -> Finding:
        host, evidence = self.node.host, {"log": last_words(error.log)} if error.log else {}
        cause = f"{about}: {error.message.rstrip('.')}."
        return Finding(check, host.name, Outcome.FAILED, cause, evidence, error.hint, host.simulated)

    def _contended(self, check: str, about: str, error: Contended, pods: Pods) -> Finding:
        """Left out if others took or freed GPUs, or the node, meanwhile; else it is a problem like any other."""
        host = self.node.host
        try:
            why = self.node.by_others([task.name for _, task in pods.made])
        except GpusmithError as trouble:
            return Finding(check, host.name, Outcome.ERROR, f"{about}: {trouble.message}", {}, trouble.hint)
        if not why:
            return self._problem(check, about, error)
        self.outcome.kept_back = True
        cause = f"{about}: left out: {why}: {error.message.rstrip('.')}."
        step = "Run the suite again when the node is free."
        return Finding(check, host.name, Outcome.SKIPPED, cause, {}, step, host.simulated, skip=Skip.LEFT_OUT)

    def rest(self, cause: str, because: Finding) -> None:
        """Checks that were not made get the outcome of the check that they depend on.

        Args:
            cause: why they were not made.
            because: a failure fails them; what could not be asked or was left out does the same to them.
        """
        for check in PER_NODE:
            if check not in self.outcome.findings:
                self.record(not_made(check, self.node.host, cause, because))


def not_made(check: str, host: Host, cause: str, because: Finding) -> Finding:
    """Of a check that was not made because of how another one came out."""
    said = f"Node '{host.name}': not tested: {cause}"
    if because.outcome is Outcome.FAILED:
        return Finding(check, host.name, Outcome.FAILED, said, simulated=host.simulated)
    skip = because.skip or Skip.BLOCKED
    return Finding(check, host.name, Outcome.SKIPPED, said, simulated=host.simulated, skip=skip)
