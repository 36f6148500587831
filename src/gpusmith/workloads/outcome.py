"""What came of one node: a finding per check, whatever happens to it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from gpusmith.checks.findings import Finding, Outcome, Skip, merge
from gpusmith.checks.register import of_tier
from gpusmith.errors import GpusmithError
from gpusmith.inventory.host import Host
from gpusmith.workloads.judge import Judged, last_words
from gpusmith.workloads.pods import Pods, Site
from gpusmith.workloads.targets import NotTested, Target
from gpusmith.workloads.waiting import PodProblem

PER_NODE = tuple(check.id for check in of_tier("workloads") if check.per_node)

Work = Callable[[Pods], Judged]


@dataclass
class NodeOutcome:
    """What came of one node.

    Attributes:
        findings: by check id.
        tested: UUIDs that the CUDA workload ran on.
        reason: why the node was not tested at all; empty if it was.
    """

    findings: dict[str, Finding] = field(default_factory=dict)
    tested: tuple[str, ...] = ()
    reason: str = ""


def not_tested(target: Target, why: NotTested) -> NodeOutcome:
    """What is recorded for a node that got no workload: never a pass."""
    outcome, skip = (Outcome.FAILED, None) if why.is_failure else (Outcome.SKIPPED, Skip.LEFT_OUT)
    step = "See the checks of the nodes and cluster tiers." if why.is_failure else why.step
    host = target.host
    findings = {
        check: Finding(check, host.name, outcome, why.reason, {}, step, host.simulated, skip=skip)
        for check in PER_NODE
    }
    return NodeOutcome(findings, (), why.reason)


@dataclass(frozen=True)
class NodeChecks:
    """Makes the checks of one node, and records what came of them.

    Attributes:
        site: where its pods are made.
        outcome: what came of it so far.
    """

    site: Site
    outcome: NodeOutcome = field(default_factory=NodeOutcome)

    def record(self, finding: Finding) -> None:
        """A finding that took no work."""
        self.outcome.findings[finding.check] = finding

    def check(self, check: str, what: str, work: Work) -> Finding:
        """Do a check's work and record what came of it.

        Args:
            check: its id.
            what: the work in words.
            work: gets the check's pods.
        """
        begin = time.monotonic()
        pods = Pods(self.site)
        finding = self._finding(check, what, work, pods)
        if pods.made_again:
            finding = replace(finding, evidence={**finding.evidence, "made_again": pods.made_again})
        finding = replace(finding, duration_s=time.monotonic() - begin)
        self.record(finding)
        self.site.say(f"{finding.target}: {what}: {finding.outcome.value}, {finding.duration_s:.1f} s")
        return finding

    def _finding(self, check: str, what: str, work: Work, pods: Pods) -> Finding:
        host = self.site.host
        about = f"Node '{host.name}': {what}"
        try:
            judged = work(pods)
            if judged.tested:
                self.outcome.tested = tuple(judged.tested)
            return merge(check, host.name, judged.problems, host.simulated, judged.evidence)
        except PodProblem as error:
            evidence = {"log": last_words(error.log)} if error.log else {}
            cause = f"{about}: {error.message.rstrip('.')}."
            return Finding(check, host.name, Outcome.FAILED, cause, evidence, error.hint, host.simulated)
        except GpusmithError as error:
            cause, step = f"{about}: {error.message}", error.hint
        except Exception as error:  # noqa: BLE001 - a fault of ours on one node must not take the others along
            cause, step = f"{about}: {type(error).__name__}: {error}", "Report this as a fault of gpusmith."
        return Finding(check, host.name, Outcome.ERROR, cause, {}, step, host.simulated)

    def fail_rest(self, cause: str) -> None:
        """Checks that were not made are failed, for that reason: the node is not proved."""
        for check in PER_NODE:
            if check not in self.outcome.findings:
                self.record(_not_made(check, self.site.host, cause))


def _not_made(check: str, host: Host, cause: str) -> Finding:
    said = f"Node '{host.name}': not tested: {cause}"
    return Finding(check, host.name, Outcome.FAILED, said, simulated=host.simulated)
