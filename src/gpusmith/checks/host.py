"""Checks of the nodes tier on the operating system: which node it is, and what Kubernetes needs of it."""

from __future__ import annotations

from gpusmith.findings import CannotAsk, Problem
from gpusmith.node_facts import NodeFacts


def identity(facts: NodeFacts) -> list[Problem]:
    """The machine that answers is the one whose Node the inventory means, else a wrong one is drained and judged."""
    host, seen = facts.host, facts.record.node_name
    if seen is None:
        raise CannotAsk(
            f"Node '{host.name}' has not joined a cluster; see nodes.services and cluster.node-ready."
        )
    address = str(host.variables.get("ansible_host") or host.name)
    evidence = {"node_name": seen, "wanted": host.node_name, "address": address}
    same = sorted(name for name, row in facts.fleet.items() if name != host.name and row.node_name == seen)
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
        name for name, row in facts.fleet.items() if name.lower() == seen and row.node_name == host.node_name
    ]
    if swapped:
        wrong += swapped
        cause += f": the addresses of '{host.name}' and '{swapped[0]}' are swapped"
    elif same:
        cause += f", and is also host {' and '.join(map(repr, same))}"
    step = f"Correct 'ansible_host' of {' and '.join(map(repr, wrong))} in the inventory before anything is done to these nodes."
    return [Problem(f"{cause}.", step, evidence)]


def host_baseline(facts: NodeFacts) -> list[Problem]:
    """What kubelet and the pod network need of the kernel, and what else the inventory sets."""
    return _swap(facts) + _kernel_modules(facts) + _kernel_parameters(facts)


def _swap(facts: NodeFacts) -> list[Problem]:
    record, node = facts.record, facts.host.name
    if not facts.host.swap_off:
        return []
    evidence = {
        "swap_areas": None if record.swap_areas is None else list(record.swap_areas),
        "swap_fstab": list(record.swap_fstab),
        "swap_target_masked": record.swap_target_masked,
    }
    causes = []
    if record.swap_areas is None:
        causes.append("whether swap is on cannot be read")
    elif record.swap_areas:
        causes.append(
            f"swap is on, {', '.join(map(repr, record.swap_areas))}, with which kubelet does not start"
        )
    if record.swap_fstab:
        causes.append(f"/etc/fstab turns swap on at the next boot, {', '.join(map(repr, record.swap_fstab))}")
    if record.swap_target_masked is False:
        causes.append("'swap.target' is not masked, so that the next boot can turn swap on")
    step = (
        "Run site.yml, which turns it off; if it has to stay, set 'host_baseline_swap: keep',"
        " with 'failSwapOn: false' for kubelet."
    )
    return [Problem(f"Node '{node}': {cause}.", step, evidence) for cause in causes]


def _kernel_modules(facts: NodeFacts) -> list[Problem]:
    node = facts.host.name
    return [
        Problem(
            f"Node '{node}': kernel module '{name}' is not loaded, the inventory wants it.",
            f"Run site.yml, or 'modprobe {name}' on '{node}' for the reason.",
            {f"module_{name}": facts.record.kernel_modules.get(name)},
        )
        for name in facts.host.kernel_modules
        if not facts.record.kernel_modules.get(name)
    ]


def _kernel_parameters(facts: NodeFacts) -> list[Problem]:
    problems = []
    # kubeadm and every pod network insist on the first, also where the inventory lists other ones.
    for name, value in {"net.ipv4.ip_forward": "1", **facts.host.sysctl}.items():
        wanted, seen = " ".join(value.split()), facts.record.sysctl.get(name)
        if seen == wanted:
            continue
        state = "is not there" if seen is None else f"is '{seen}'"
        why = ", it needs module 'br_netfilter'" if seen is None and name.startswith("net.bridge.") else ""
        problems.append(
            Problem(
                f"Node '{facts.host.name}': kernel parameter '{name}' {state}{why}, wanted is '{wanted}'.",
                "Run site.yml; if it comes back, 'systemd-analyze cat-config sysctl.d'"
                f" on '{facts.host.name}' tells who else sets it.",
                {f"sysctl_{name}": {"wanted": wanted, "seen": seen}},
            )
        )
    return problems
