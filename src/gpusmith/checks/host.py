"""Checks of the nodes tier on the operating system: which node it is, and what Kubernetes needs of it."""

from __future__ import annotations

from dataclasses import asdict

from gpusmith.findings import CannotAsk
from gpusmith.node.facts import NodeFacts
from gpusmith.probe.boot import Boot
from gpusmith.problems import Problem

OWN_FILES = "/gpusmith-"
"""In the paths of files that our roles write."""


def identity(facts: NodeFacts) -> list[Problem]:
    """The machine that answers is the one whose Node the inventory means, else a wrong one is drained and judged."""
    host, seen = facts.host, facts.record.kubernetes.node_name
    kubelet = facts.record.services.get("kubelet")
    if seen is None and kubelet is not None and kubelet.active == "active":
        return [
            Problem(
                f"Node '{host.name}': kubelet runs, but '/etc/kubernetes/kubelet.conf' is gone: it cannot start once more.",
                f"Restore the file on '{host.name}', or take the node out of the cluster and join it again.",
            )
        ]
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


def host_baseline(facts: NodeFacts) -> list[Problem]:
    """What kubelet and the pod network need of the kernel, and what else the inventory sets, now and at the next boot."""
    found = _swap(facts) + _kernel_modules(facts) + _kernel_parameters(facts)
    if facts.record.boot is None:
        cause = f"Node '{facts.host.name}': what a boot would load and set could not be read."
        found.append(Problem(cause, "Read the record's 'errors', then run site.yml for the node."))
    return found


def _swap(facts: NodeFacts) -> list[Problem]:
    record, node = facts.record, facts.host.name
    if not facts.host.swap_off:
        return []
    evidence = {
        "swap_areas": None if record.system.swap_areas is None else list(record.system.swap_areas),
        "swap_fstab": list(record.system.swap_fstab),
        "swap_units": None if record.boot is None else list(record.boot.swap_units),
        "swap_target_masked": record.system.swap_target_masked,
    }
    causes = []
    if record.system.swap_areas is None:
        causes.append("whether swap is on cannot be read")
    elif record.system.swap_areas:
        causes.append(
            f"swap is on, {', '.join(map(repr, record.system.swap_areas))}, with which kubelet does not start"
        )
    if record.system.swap_fstab:
        causes.append(
            f"/etc/fstab turns swap on at the next boot, {', '.join(map(repr, record.system.swap_fstab))}"
        )
    if record.boot is not None and record.boot.swap_units:
        units = ", ".join(map(repr, record.boot.swap_units))
        causes.append(f"a swap unit is turned on at the next boot, {units}")
    if record.system.swap_target_masked is False:
        causes.append("'swap.target' is not masked, so that the next boot can turn swap on")
    step = (
        "Run site.yml, which turns it off; if it has to stay, set 'host_baseline_swap: keep',"
        " with 'failSwapOn: false' for kubelet."
    )
    return [Problem(f"Node '{node}': {cause}.", step, evidence) for cause in causes]


def _not_loaded_at_boot(boot: Boot | None, name: str) -> str | None:
    """Why no boot would load a module; None if one would, or if that is not known."""
    if boot is None:
        return None
    row = boot.modules.get(name)
    if row is None or row.file is None:
        return "no file in modules-load.d names it"
    return f"file '{row.forbidden_by}' forbids it" if row.forbidden_by else None


def _kernel_modules(facts: NodeFacts) -> list[Problem]:
    node, record = facts.host.name, facts.record
    problems = []
    for name in facts.host.kernel_modules:
        loaded, why = record.system.modules.get(name), _not_loaded_at_boot(record.boot, name)
        if loaded and why is None:
            continue
        if why is None:
            fault = "is not loaded, the inventory wants it"
        elif loaded is None:
            # The probe looks for those that files name; of others it does not know whether they are loaded.
            fault = f"would not be loaded by a boot ({why})"
        else:
            fault = f"is {'loaded now, but' if loaded else 'not loaded, and'} no boot would load it ({why})"
        step = "Run site.yml for the node"
        row = record.boot.modules.get(name) if record.boot else None
        if row is not None and row.forbidden_by:
            step = f"Take the module out of '{row.forbidden_by}' on '{node}', then run site.yml for the node"
        elif why is None:
            step += f", or 'modprobe {name}' on '{node}' for the reason"
        problems.append(
            Problem(
                f"Node '{node}': kernel module '{name}' {fault}.",
                f"{step}.",
                {f"module_{name}": {"loaded": loaded, "at_boot": row and asdict(row)}},
            )
        )
    return problems


def _not_set_at_boot(facts: NodeFacts, name: str, wanted: str) -> str | None:
    """What a boot would do to a parameter instead; None if nothing else, or if that is not known."""
    if facts.record.boot is None:
        return None
    row = facts.record.boot.sysctl.get(name)
    if row is None or not row.files:
        # What the inventory does not list, no role writes.
        return "no boot would set it (no file in sysctl.d names it)" if name in facts.host.sysctl else None
    if row.value == wanted:
        return None
    files = f"file{'s' if len(row.files) > 1 else ''} {', '.join(map(repr, row.files))}"
    return (
        f"no boot would set it ({files})"
        if row.value is None
        else f"a boot would set '{row.value}' ({files})"
    )


def _kernel_parameters(facts: NodeFacts) -> list[Problem]:
    problems = []
    node, record = facts.host.name, facts.record
    # kubeadm and every pod network insist on the first, also where the inventory lists other ones.
    for name, value in {"net.ipv4.ip_forward": "1", **facts.host.sysctl}.items():
        wanted, seen = " ".join(value.split()), record.system.sysctl.get(name)
        at_boot = _not_set_at_boot(facts, name, wanted)
        if seen == wanted and at_boot is None:
            continue
        state = "is not there" if seen is None else f"is '{seen}'"
        why = ", it needs module 'br_netfilter'" if seen is None and name.startswith("net.bridge.") else ""
        if seen == wanted:
            fault = f"is '{seen}' now, but {at_boot}"
        elif record.boot is not None and name not in record.boot.sysctl:
            # The probe looks for our own and those that files of our roles name.
            fault = "is in no file of role 'host_baseline' in sysctl.d"
        else:
            fault = f"{state}{why}" + (f", and {at_boot}" if at_boot else "")
        row = record.boot.sysctl.get(name) if record.boot else None
        foreign = [path for path in row.files if OWN_FILES not in path] if row and at_boot else []
        if foreign:
            step = (
                f"Run site.yml for the node; if it refuses because of {' and '.join(map(repr, foreign))},"
                f" correct that on '{node}' first."
            )
        elif at_boot:
            step = "Run site.yml for the node."
        else:
            step = f"Run site.yml; if it comes back, 'systemd-analyze cat-config sysctl.d' on '{node}' tells who else sets it."
        problems.append(
            Problem(
                f"Node '{node}': kernel parameter '{name}' {fault}, wanted is '{wanted}'.",
                step,
                {f"sysctl_{name}": {"wanted": wanted, "seen": seen, "at_boot": row and asdict(row)}},
            )
        )
    return problems
