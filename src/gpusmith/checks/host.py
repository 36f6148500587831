"""Checks of the nodes tier on the operating system: which node it is, and what Kubernetes needs of it."""

from __future__ import annotations

from gpusmith.checks.findings import CannotAsk
from gpusmith.checks.register import check
from gpusmith.expect import host as expected
from gpusmith.expect import identity as expected_identity
from gpusmith.expect import kubelet
from gpusmith.expect.wanted import baseline_of
from gpusmith.node.facts import NodeFacts
from gpusmith.problems import Problem


@check(
    "nodes.identity",
    place=20,
    proves="the machine that answers is the cluster node that the inventory means, and belongs to no other host",
    fails_when="the machine has another node name, another host leads to it or has a copy of its disk, or kubelet.conf is gone",
    do="correct 'ansible_host' of the named hosts before any change to these nodes",
    critical=True,
    managed_only=True,
)
def identity(facts: NodeFacts) -> list[Problem]:
    """The machine that answers is the one whose Node the inventory means, else a wrong one is drained and judged."""
    lost = kubelet.identity_lost(facts.record, facts.host.name)
    if lost:
        return lost
    machine = facts.machine
    found = expected_identity.judge(machine, facts.machines)
    if machine.name is None and not found.problems:
        raise CannotAsk(
            f"Node '{facts.host.name}' has not joined a cluster; see nodes.services and cluster.node-ready."
        )
    return [*found.problems, *found.notes]


@check(
    "nodes.host-baseline",
    place=190,
    proves=(
        "swap is off, kernel modules and parameters are as in the inventory, now and at the next boot, and huge pages are"
        " as in the inventory now"
    ),
    fails_when="swap is on or comes back, a module or a parameter is missing, now or after a boot, or the huge pages differ",
    do="run site.yml; if it names a file of somebody else, correct that file first; huge pages may need a reboot",
    managed_only=True,
)
def host_baseline(facts: NodeFacts) -> list[Problem]:
    """What kubelet and the pod network need of the kernel, and what else the inventory sets, now and at the next boot."""
    return expected.baseline(facts.record, baseline_of(facts.host))
