"""Checks of the nodes tier on the operating system: which node it is, and what Kubernetes needs of it."""

from __future__ import annotations

from gpusmith.checks.findings import CannotAsk
from gpusmith.checks.register import check
from gpusmith.expect import host as expected
from gpusmith.expect import kubelet
from gpusmith.expect.wanted import baseline_of
from gpusmith.node.facts import NodeFacts
from gpusmith.problems import Problem


@check(
    "nodes.identity",
    place=20,
    proves="the machine that answers is the cluster's node that the inventory means, and no other host's",
    fails_when="the machine has another node name, another host leads to it as well, or kubelet.conf is gone",
    do="correct 'ansible_host' of the hosts that are named before anything is done to these nodes",
    critical=True,
)
def identity(facts: NodeFacts) -> list[Problem]:
    """The machine that answers is the one whose Node the inventory means, else a wrong one is drained and judged."""
    host, seen = facts.host, facts.record.kubernetes.node_name
    lost = kubelet.identity_lost(facts.record, host.name)
    if lost:
        return lost
    if seen is None:
        raise CannotAsk(
            f"Node '{host.name}' has not joined a cluster; see nodes.services and cluster.node-ready."
        )
    address = str(host.variables.get("ansible_host") or host.name)
    evidence = {"node_name": seen, "wanted": host.node_name, "address": address}
    same = sorted(
        name for name, row in facts.fleet.items() if name != host.name and row.kubernetes.node_name == seen
    )
    if seen == host.node_name:
        return [
            Problem(
                f"Node '{host.name}': host '{name}' leads to it as well: both are node '{seen}' of the cluster.",
                f"Correct 'ansible_host' of '{name}' in the inventory.",
                {**evidence, "same_node": name},
            )
            for name in same
        ]
    cause = f"Node '{host.name}': the machine at its address '{address}' is node '{seen}' of the cluster, not '{host.node_name}'"
    wrong = [host.name]
    swapped = [
        name
        for name, row in facts.fleet.items()
        if name.lower() == seen and row.kubernetes.node_name == host.node_name
    ]
    if swapped:
        wrong += swapped
        cause += f": the addresses of '{host.name}' and '{swapped[0]}' are swapped"
    elif same:
        cause += f", and is also host {' and '.join(map(repr, same))}"
    step = f"Correct 'ansible_host' of {' and '.join(map(repr, wrong))} in the inventory before anything is done to these nodes."
    return [Problem(f"{cause}.", step, evidence)]


@check(
    "nodes.host-baseline",
    place=190,
    proves="swap is off, and kernel modules and parameters are the inventory's, now and at the next boot",
    fails_when="swap is on or comes back, or a module or a parameter is not there, now or after a boot",
    do="run site.yml; a file of somebody else that it names has to be corrected first",
)
def host_baseline(facts: NodeFacts) -> list[Problem]:
    """What kubelet and the pod network need of the kernel, and what else the inventory sets, now and at the next boot."""
    return expected.baseline(facts.record, baseline_of(facts.host))
