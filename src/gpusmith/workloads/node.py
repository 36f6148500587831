"""A node under test: as it was looked at last, what others do to it meanwhile, and what came of it so far."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from gpusmith.checks.findings import Finding
from gpusmith.cluster.api import Cluster
from gpusmith.cluster.views import NodeView
from gpusmith.names import SIMULATED_LABEL
from gpusmith.wait import Deadline
from gpusmith.wanted.layouts import Layout
from gpusmith.wanted.node import NodeWanted
from gpusmith.wanted.offers import Offer, devices
from gpusmith.workloads.board import Board
from gpusmith.workloads.jobs import Run
from gpusmith.workloads.judge import Expected
from gpusmith.workloads.outcome import NodeOutcome
from gpusmith.workloads.targets import Look, NotTested, Target, by_others, why_not

Say = Callable[[str], None]
OTHERS_WAIT_S = 10.0
"""How long a pod that takes the place of ours may take to be seen."""
OTHERS_TICK_S = 1.0
SPARE_PODS = 8
"""Room that is left on a node beside pods with shares: for our own without any, and for others."""
ALL_POD = "the pod that had all GPUs of the node"


@dataclass(eq=False)
class NodeUnderTest:
    """A node, and where its pods are made.

    Attributes:
        cluster: the API.
        run: this run.
        board: its pods.
        target: the node, as it was looked at last.
        prefix: start of the names of its pods, unique among nodes.
        say: told what is going on.
        look: reads its Node object anew.
        made: when each pod was made, on the monotonic clock.
        outcome: what came of it so far.
        blocked: checks whose followers are not made: why, and the finding that says so.
        releases: give back the GPUs of a check's pods, by its id.
    """

    cluster: Cluster
    run: Run
    board: Board
    target: Target
    prefix: str
    say: Say
    look: Look
    made: dict[str, float] = field(default_factory=dict)
    outcome: NodeOutcome = field(default_factory=NodeOutcome)
    blocked: dict[str, tuple[str, Finding]] = field(default_factory=dict)
    releases: dict[str, Callable[[], None]] = field(default_factory=dict)

    @property
    def host(self) -> NodeWanted:
        """What the inventory says of the node."""
        return self.target.host

    @property
    def view(self) -> NodeView:
        """Its Node object; a node without one gets no pods."""
        assert self.target.view is not None
        return self.target.view

    @property
    def free(self) -> int:
        """How many of its offer nobody held at the last look."""
        return self.target.view.free(self.offer) if self.target.view else 0

    @property
    def layout(self) -> Layout:
        """How its GPUs are handed out."""
        return self.target.layout

    @property
    def pods_at_once(self) -> int:
        """How many pods with one part each it takes: a kubelet may have more parts than it takes pods."""
        most = self.view.most_pods
        return (
            self.free if most is None else max(1, min(self.free, most - len(self.view.tenants) - SPARE_PODS))
        )

    @property
    def offer(self) -> Offer:
        """What pods ask for."""
        (offer,) = self.target.offers
        return offer

    @property
    def findings(self) -> dict[str, Finding]:
        """What its workloads found so far, by id of the check."""
        return self.outcome.findings

    def record(self, finding: Finding) -> None:
        """A finding on this node."""
        self.findings[finding.check] = finding

    def release(self) -> None:
        """Give back all GPUs that pods of this node still hold."""
        while self.releases:
            self.releases.popitem()[1]()

    def refresh(self) -> NotTested | None:
        """Look at the node; why it cannot be given GPUs to test now, None if it can."""
        self.target = replace(self.target, view=self.look(self.target))
        return why_not(self.target)

    def by_others(self, pods: Sequence[str]) -> str:
        """What other users did meanwhile that explains why our pods did not get or keep GPUs; empty if nothing does.

        Args:
            pods: names of our workloads.
        """
        deadline, before = Deadline(OTHERS_WAIT_S), self.target
        while True:
            now = self.look(before)
            said = by_others(before, now) or self._preempted(pods)
            if said:
                self.target = replace(before, view=now)
            if said or deadline.passed():
                return said
            time.sleep(OTHERS_TICK_S)

    def _preempted(self, pods: Sequence[str]) -> str:
        folder = f"/api/v1/namespaces/{self.run.namespace}/events"
        for event in self.cluster.items(folder, fieldSelector="reason=Preempted"):
            name = str((event.get("involvedObject") or {}).get("name"))
            if any(name == pod or name.startswith(f"{pod}-") for pod in pods):
                return (
                    f"pod '{name}' gave way to a pod of somebody else: {event.get('message') or 'Preempted'}"
                )
        return ""

    @property
    def expected(self) -> Expected:
        """What judges compare with."""
        known = {} if self.host.managed else {"told": f"label '{SIMULATED_LABEL}' of the Node"}
        known |= {"by": ALL_POD} if self.target.by_pods else {}
        return Expected(self.host.name, self.host.simulated, self.target.devices, **known)

    def learn(self, uuids: Sequence[str]) -> None:
        """Of a node whose machine nobody asks: what a pod with all its GPUs was given is what the others are compared with."""
        if self.target.by_pods and len(uuids) == self.view.allocatable.get(self.offer.resource):
            self.target = replace(self.target, devices=devices(uuids))
