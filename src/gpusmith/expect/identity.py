"""Whether the machine that answers is the one that the inventory means. If not, the wrong machine would be changed.

The kubelet reports boot ID and machine ID to the cluster. The boot ID is the stronger proof: no two machines share one. The
machine ID may have been copied with a disk.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from gpusmith.probe.record import Record
from gpusmith.problems import Problem

TELLS_AFTER_S = 60.0
"""A report so long after the kubelet's start was made while that kubelet ran; the margin is for clocks that differ."""


@dataclass(frozen=True)
class Told:
    """What the kubelet of a Node told the cluster of its machine last ('status.nodeInfo').

    Attributes:
        machine_id: of the installed system.
        boot_id: of the boot.
        system_uuid: of the board.
        ready: it still tells.
        heartbeat_unix: when it told something for the last time; None if that is not known.
    """

    machine_id: str = ""
    boot_id: str = ""
    system_uuid: str = ""
    ready: bool = False
    heartbeat_unix: float | None = None


@dataclass(frozen=True)
class Machine:
    """What a host of the inventory leads to.

    Attributes:
        host: its name in the inventory.
        node: the Node that the inventory means.
        address: where it was looked for.
        record: what the probe saw there.
    """

    host: str
    node: str
    address: str
    record: Record

    @property
    def name(self) -> str | None:
        """The Node whose kubelet it runs; None if it has not joined."""
        return self.record.kubernetes.node_name

    @property
    def boot_id(self) -> str:
        """Of its boot; empty if it is not known."""
        return self.record.host.boot_id or ""

    @property
    def machine_id(self) -> str:
        """Of its installed system; empty if it is not known."""
        return self.record.host.machine_id or ""


@dataclass(frozen=True)
class Nodes:
    """What the cluster says of all its Nodes.

    Attributes:
        told: by name.
        authorities: digests of the certificates by which nodes know this cluster; empty if they are not known.
    """

    told: Mapping[str, Told] = field(default_factory=dict)
    authorities: frozenset[str] = frozenset()

    @cached_property
    def by_machine_id(self) -> Mapping[str, Sequence[tuple[str, Told]]]:
        """The same, by what copies of a disk have in common."""
        found: dict[str, list[tuple[str, Told]]] = {}
        for name, told in self.told.items():
            found.setdefault(told.machine_id, []).append((name, told))
        return found


@dataclass(frozen=True)
class Verdict:
    """What was found out about one machine.

    Attributes:
        problems: it is another machine than the inventory means, or that cannot be told apart. Nothing may be changed.
        notes: it is the right one, but something about it is worth knowing.
    """

    problems: tuple[Problem, ...] = ()
    notes: tuple[Problem, ...] = ()


class Machines:
    """Machines of many hosts, by what two of them must not have in common.

    Attributes:
        nodes: names of the Nodes that the inventory means.

    Args:
        machines: in the order of the inventory.
    """

    def __init__(self, machines: Iterable[Machine]) -> None:
        rows = list(machines)
        self.nodes = frozenset(row.node for row in rows)
        self._by_mark: dict[tuple[str, str | None], list[Machine]] = {}
        for row in rows:
            for mark in self._marks(row):
                self._by_mark.setdefault(mark, []).append(row)

    def like(self, machine: Machine) -> list[Machine]:
        """Those of other hosts that share a mark with one: all that its identity can be mixed up with."""
        marks = [*self._marks(machine), ("node", machine.name)]
        found = {row.host: row for mark in marks for row in self._by_mark.get(mark, ())}
        found.pop(machine.host, None)
        return list(found.values())

    @staticmethod
    def _marks(row: Machine) -> list[tuple[str, str | None]]:
        marks = {"boot": row.boot_id, "machine": row.machine_id, "name": row.name, "node": row.node}
        return [(kind, value) for kind, value in marks.items() if value]


def judge(machine: Machine, fleet: Machines, nodes: Nodes | None = None) -> Verdict:
    """Whether a host's machine is the one that the inventory means.

    Args:
        machine: to be judged.
        fleet: of all hosts of the run.
        nodes: what the cluster says; None if it was not asked.
    """
    others = fleet.like(machine)
    if machine.name is not None and machine.name != machine.node:
        return Verdict((_other_name(machine, others),))
    if same := [row for row in others if _same(machine, row)]:
        return Verdict(tuple(_led_to_twice(machine, row) for row in same))
    found = _against_node(machine, nodes) if nodes is not None else Verdict()
    copied = _copied(machine, others, nodes, fleet.nodes | {machine.node})
    if machine.name is None:
        # A new machine ID is easy to set before the machine joins, and not afterwards.
        return Verdict((*found.problems, *copied), found.notes)
    return Verdict(found.problems, (*found.notes, *copied))


def _same(one: Machine, other: Machine) -> bool:
    if one.boot_id and other.boot_id:
        return one.boot_id == other.boot_id
    return one.name is not None and one.name == other.name


def _evidence(machine: Machine) -> dict[str, str | None]:
    return {
        "node_name": machine.name,
        "wanted": machine.node,
        "address": machine.address,
        "machine_id": machine.machine_id,
        "boot_id": machine.boot_id,
    }


# --- hosts of the inventory against each other ---------------------------------------------------------------------


def _other_name(machine: Machine, others: Iterable[Machine]) -> Problem:
    others = list(others)
    cause = (
        f"Node '{machine.host}': the machine at its address '{machine.address}' is node '{machine.name}' of the cluster,"
        f" not '{machine.node}'"
    )
    wrong = [machine.host]
    swapped = [row.host for row in others if row.node == machine.name and row.name == machine.node]
    same = sorted(row.host for row in others if row.name == machine.name)
    if swapped:
        wrong += swapped
        cause += f": the addresses of '{machine.host}' and '{swapped[0]}' are swapped"
    elif same:
        cause += f", and is also host {' and '.join(map(repr, same))}"
    return Problem(
        f"{cause}.",
        f"Correct 'ansible_host' of {' and '.join(map(repr, wrong))} in the inventory before anything is done to these nodes.",
        _evidence(machine),
    )


def _led_to_twice(machine: Machine, other: Machine) -> Problem:
    evidence = {**_evidence(machine), "same_node": other.host}
    if machine.name is not None:
        return Problem(
            f"Node '{machine.host}': host '{other.host}' leads to it as well: both are node '{machine.name}' of the cluster.",
            f"Correct 'ansible_host' of '{other.host}' in the inventory.",
            evidence,
        )
    return Problem(
        f"Hosts '{machine.host}' (at '{machine.address}') and '{other.host}' (at '{other.address}') lead to the same machine.",
        f"Correct 'ansible_host' of '{machine.host}' or '{other.host}' in the inventory.",
        evidence,
    )


def _copied(
    machine: Machine, others: Iterable[Machine], nodes: Nodes | None, ours: Collection[str]
) -> list[Problem]:
    """Machines that were made of one disk: their system has the same ID, and they run side by side."""
    if not machine.machine_id or not machine.boot_id:
        return []
    twins = [
        f"host '{row.host}'"
        for row in others
        if row.machine_id == machine.machine_id and row.boot_id not in ("", machine.boot_id)
    ]
    twins += [
        f"node '{name}'"
        for name, told in (nodes.by_machine_id.get(machine.machine_id, ()) if nodes else ())
        if name not in ours and told.ready and told.boot_id not in ("", machine.boot_id)
    ]
    if not twins:
        return []
    return [
        Problem(
            f"Node '{machine.host}': its machine ID '{machine.machine_id}' is also that of {' and '.join(sorted(twins))}:"
            " their disks are copies.",
            f"Remove '/etc/machine-id' on '{machine.host}', run 'systemd-machine-id-setup' there, and reboot it.",
            _evidence(machine),
        )
    ]


# --- a machine against its Node ------------------------------------------------------------------------------------


def _against_node(machine: Machine, nodes: Nodes) -> Verdict:
    told = nodes.told.get(machine.node)
    if told is None:
        return _without_node(machine, nodes)
    if machine.boot_id and machine.boot_id == told.boot_id:
        return _joined_in_another_way(machine, told)
    if not told.machine_id and not told.boot_id:
        return Verdict()  # no kubelet has reported yet: the Node object was made by hand
    copy = bool(machine.machine_id) and machine.machine_id == told.machine_id
    return (
        _of_joined(machine, told, copy) if machine.name is not None else _of_bare(machine, told, copy, nodes)
    )


def _joined_in_another_way(machine: Machine, told: Told) -> Verdict:
    """Of a machine that is the Node: whether what it serves by is what all others go by, kubeadm's kubeconfig."""
    if machine.name is not None or not told.ready:
        return Verdict()
    problem = Problem(
        f"Node '{machine.host}': it serves in the cluster, but has no '/etc/kubernetes/kubelet.conf', by which kubeadm joins.",
        "gpusmith works with nodes that kubeadm joined. If this one has just left, run this again in a minute.",
        _evidence(machine),
    )
    return Verdict((problem,))


def _without_node(machine: Machine, nodes: Nodes) -> Verdict:
    if machine.name is None:
        return Verdict()
    mine = frozenset(machine.record.kubernetes.authorities)
    if mine and nodes.authorities and not mine & nodes.authorities:
        cause = (
            f"Node '{machine.host}': the machine at its address '{machine.address}' is a node of another cluster"
            " (it knows that one by another certificate authority)."
        )
        step = f"Correct 'ansible_host' of '{machine.host}' or 'gpusmith_kubeconfig' in the inventory."
        return Verdict((Problem(cause, step, _evidence(machine)),))
    if not mine & nodes.authorities:
        cause = (
            f"Node '{machine.host}': the machine at its address '{machine.address}' has joined a cluster, but this one has no"
            f" Node '{machine.node}', and their certificate authorities could not be compared."
        )
        step = (
            f"If it is of this cluster, 'systemctl restart kubelet' on '{machine.host}' makes its Node anew."
        )
        return Verdict((Problem(cause, step, _evidence(machine)),))
    return Verdict(
        notes=(
            Problem(
                f"Node '{machine.host}': its machine has joined, but the cluster has no Node '{machine.node}'.",
                f"If somebody deleted it, 'systemctl restart kubelet' on '{machine.host}' makes it anew.",
                _evidence(machine),
            ),
        )
    )


def _of_joined(machine: Machine, told: Told, copy: bool) -> Verdict:
    evidence = {**_evidence(machine), "node_machine_id": told.machine_id, "node_boot_id": told.boot_id}
    if not copy and machine.machine_id and told.machine_id:
        return Verdict(
            (
                Problem(
                    f"Node '{machine.host}': another machine is Node '{machine.node}' of the cluster: the one at its address"
                    f" '{machine.address}' has machine ID '{machine.machine_id}', the Node was told '{told.machine_id}'.",
                    f"Correct 'ansible_host' of '{machine.host}' in the inventory. If its machine ID was changed,"
                    " start its kubelet, which tells the new one.",
                    evidence,
                ),
            )
        )
    since = _kubelet_runs_since(machine.record)
    if since is not None and (told.heartbeat_unix or 0.0) > since + TELLS_AFTER_S:
        return Verdict(
            (
                Problem(
                    f"Node '{machine.host}': a second machine reports to the cluster as Node '{machine.node}'."
                    f" The Node's boot ID is not that of the machine at '{machine.address}', whose kubelet ran when it was"
                    " reported.",
                    f"Find the copy of '{machine.host}' and stop its kubelet; then run this again.",
                    evidence,
                ),
            )
        )
    return Verdict(
        notes=(
            Problem(
                f"Node '{machine.host}': it was booted since its kubelet told the cluster something for the last time.",
                f"Read 'journalctl -u kubelet' on '{machine.host}'.",
                evidence,
            ),
        )
    )


def _of_bare(machine: Machine, told: Told, copy: bool, nodes: Nodes) -> Verdict:
    evidence = {**_evidence(machine), "node_machine_id": told.machine_id, "node_boot_id": told.boot_id}
    alike = [row for row in nodes.told.values() if row.system_uuid.lower() == told.system_uuid.lower()]
    board = (machine.record.host.system_uuid or "").lower()
    # Some boards all have the same.
    same_board = bool(board) and board == told.system_uuid.lower() and len(alike) == 1
    if (copy or same_board) and not told.ready:
        what = "left from before it was reset" if copy else "left from before its system was installed anew"
        return Verdict(
            notes=(Problem(f"Node '{machine.host}': its Node is {what}, and is taken over.", "", evidence),)
        )
    cause = (
        f"Node '{machine.host}': the machine at its address '{machine.address}' has not joined the cluster, and"
        f" Node '{machine.node}' there is another machine's"
    )
    if told.ready:
        step = f"Correct 'ansible_host' of '{machine.host}', or give it another name."
        if copy or same_board:
            step += " If it was reset or rebooted less than a minute ago, run this again then."
        return Verdict((Problem(f"{cause}, which is Ready.", step, evidence),))
    return Verdict(
        (
            Problem(
                f"{cause} (machine ID '{told.machine_id}', here '{machine.machine_id}').",
                f"Correct 'ansible_host' of '{machine.host}'. If this machine replaces that one, or was installed anew:"
                f" 'kubectl delete node {machine.node}'.",
                evidence,
            ),
        )
    )


def _kubelet_runs_since(record: Record) -> float | None:
    """When the kubelet was started; None if it does not run."""
    kubelet = record.services.get("kubelet")
    return kubelet.started_unix if kubelet is not None and kubelet.active == "active" else None
