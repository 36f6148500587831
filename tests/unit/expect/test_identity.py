"""The machine that answers is the one whose Node is meant, or nothing is done to either."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.expect.identity import Machine, Machines, Nodes, Told, Verdict, judge
from gpusmith.node.records import parse
from tests.unit.records import healthy_record


def machine(
    host: str = "gpu-1", joined: str | None = "", machine_id: str = "m1", boot_id: str = "b1", **more: Any
) -> Machine:
    """What a host leads to; it has joined by its own name, if nothing else is said."""
    raw = healthy_record()
    raw["host"].update(
        machine_id=machine_id, boot_id=boot_id, time_unix=1000.0, system_uuid=more.get("board")
    )
    name = host if joined == "" else joined
    raw["kubernetes"].update(
        joined=name is not None, node_name=name, authorities=more.get("authorities", ["ca"])
    )
    raw["services"]["kubelet"].update(
        active=more.get("kubelet", "active"), started_unix=1000.0 - more.get("runs_s", 500.0)
    )
    return Machine(host, host, more.get("address", "192.0.2.1"), parse(raw))


def told(
    machine_id: str = "m1", boot_id: str = "b1", ready: bool = True, board: str = "s1", ago_s: float = 100.0
) -> Told:
    """What a Node was told some time before the look at the machine."""
    return Told(machine_id, boot_id, board, ready, 1000.0 - ago_s)


def said(verdict: Verdict) -> tuple[str, str]:
    """Causes of problems, and of notes."""
    return " ".join(row.cause for row in verdict.problems), " ".join(row.cause for row in verdict.notes)


def on(one: Machine, others: list[Machine] | None = None, **nodes: Told) -> tuple[str, str]:
    there = Nodes({name.replace("_", "-"): row for name, row in nodes.items()}, frozenset({"ca"}))
    return said(judge(one, Machines([one, *(others or [])]), there))


def test_the_right_machine_is_no_problem() -> None:
    assert on(machine(), gpu_1=told()) == ("", "")
    # Nobody wrote the file anew, but the boot is the one that the Node is of.
    assert on(machine(machine_id="changed"), gpu_1=told()) == ("", "")
    assert on(machine(machine_id=""), gpu_1=told()) == ("", "")


def test_a_machine_that_is_new_to_the_cluster_is_no_problem() -> None:
    assert on(machine(joined=None)) == ("", "")
    assert on(machine(joined=None), gpu_2=told("m2", "b2")) == ("", "")
    # Made by hand, so that labels are there before its machine.
    assert on(machine(joined=None), gpu_1=Told()) == ("", "")


def test_swapped_addresses_are_named_on_both() -> None:
    one = machine("gpu-1", "gpu-2", "m2", "b2", address="192.0.2.2")
    two = machine("gpu-2", "gpu-1", "m1", "b1")
    nodes = {"gpu_1": told(), "gpu_2": told("m2", "b2")}
    for row, other in ((one, two), (two, one)):
        problems, _ = on(row, [other], **nodes)
        assert f"is node '{other.host}' of the cluster, not '{row.host}'" in problems
        assert "are swapped" in problems


def test_a_limit_does_not_hide_that_it_is_another_one() -> None:
    problems, _ = on(machine("gpu-1", "gpu-2", "m2", "b2"), gpu_1=told(), gpu_2=told("m2", "b2"))
    assert "is node 'gpu-2' of the cluster, not 'gpu-1'" in problems


@pytest.mark.parametrize("ready", [True, False])
def test_another_machine_of_the_same_name_is_not_the_node(ready: bool) -> None:
    problems, _ = on(machine(machine_id="m9", boot_id="b9"), gpu_1=told(ready=ready))
    assert "another machine is Node 'gpu-1'" in problems
    assert "'m9'" in problems
    assert "'m1'" in problems


def test_a_boot_that_the_cluster_does_not_know_yet_is_no_other_machine() -> None:
    down = machine(boot_id="b2", kubelet="failed")
    problems, notes = on(down, gpu_1=told())
    assert problems == ""
    assert "was booted since its kubelet told" in notes
    assert on(machine(boot_id="b2", runs_s=5.0), gpu_1=told(ago_s=0.0))[0] == ""
    # It runs, and could not tell so far: what the Node says is older. The cluster itself may be back for a second only.
    assert on(machine(boot_id="b2"), gpu_1=told(ready=False, ago_s=600.0))[0] == ""
    assert on(machine(boot_id="b2"), gpu_1=told(ago_s=600.0))[0] == ""


def test_a_copy_of_the_whole_disk_is_found_by_its_boot() -> None:
    problems, _ = on(machine(boot_id="b2"), gpu_1=told())
    assert "a second machine reports to the cluster as Node 'gpu-1'" in problems


def test_a_node_of_another_cluster_is_not_this_ones() -> None:
    problems, _ = on(machine(authorities=["other"]))
    assert "is a node of another cluster" in problems
    # A Node that somebody deleted is this cluster's.
    problems, notes = on(machine())
    assert problems == ""
    assert "has joined, but the cluster has no Node 'gpu-1'" in notes
    # Of which cluster it is must be known before anything is done to it.
    assert "could not be compared" in on(machine(authorities=[]))[0]


def test_a_name_that_another_machine_has_is_not_given_away() -> None:
    for ready in (True, False):
        problems, _ = on(machine(joined=None, machine_id="m9", boot_id="b9"), gpu_1=told(ready=ready))
        assert "has not joined the cluster, and Node 'gpu-1' there is another machine's" in problems
    (problem,) = judge(
        machine(joined=None, machine_id="m9", boot_id="b9"), Machines([]), Nodes({"gpu-1": told(ready=False)})
    ).problems
    assert "kubectl delete node gpu-1" in problem.next_step


def test_its_own_past_is_taken_over() -> None:
    # Reset in this boot, reset in an earlier one, and installed anew on the same board.
    assert on(machine(joined=None), gpu_1=told(ready=False)) == ("", "")
    problems, notes = on(machine(joined=None, boot_id="b2"), gpu_1=told(ready=False))
    assert (problems, "left from before it was reset" in notes) == ("", True)
    anew = machine(joined=None, machine_id="m2", boot_id="b2", board="S1")
    problems, notes = on(anew, gpu_1=told(ready=False))
    assert (problems, "installed anew" in notes) == ("", True)
    # Boards that all have one ID prove nothing, nor does a Node that somebody else keeps Ready.
    assert "another machine's" in on(anew, gpu_1=told(ready=False), gpu_2=told("m3", "b3"))[0]
    assert "which is Ready" in on(anew, gpu_1=told())[0]
    assert "which is Ready" in on(machine(joined=None, boot_id="b2"), gpu_1=told())[0]


def test_a_node_that_joined_without_kubeadm_is_no_bare_machine() -> None:
    assert "has no '/etc/kubernetes/kubelet.conf'" in on(machine(joined=None), gpu_1=told())[0]


def test_two_hosts_that_lead_to_one_machine_are_named() -> None:
    one, two = machine("gpu-1", None), machine("gpu-2", None, address="192.0.2.2")
    problems, _ = on(one, [two])
    assert "Hosts 'gpu-1' (at '192.0.2.1') and 'gpu-2' (at '192.0.2.2') lead to the same machine" in problems
    joined, wrong = machine("gpu-1"), machine("gpu-2", "gpu-1")
    assert "host 'gpu-2' leads to it as well" in on(joined, [wrong], gpu_1=told())[0]
    assert "not 'gpu-2', and is also host 'gpu-1'" in on(wrong, [joined], gpu_1=told())[0]


def test_copied_machine_ids_stop_only_who_has_not_joined() -> None:
    twin = machine("gpu-2", boot_id="b2")
    problems, notes = on(machine(joined=None), [twin], gpu_2=told("m1", "b2"))
    assert "is also that of host 'gpu-2': their disks are copies" in problems
    problems, notes = on(machine(), [twin], gpu_1=told(), gpu_2=told("m1", "b2"))
    assert problems == ""
    assert "their disks are copies" in notes
    # A twin that is not in this run; the Node that this machine was before it got this name is none.
    assert "node 'gpu-9'" in on(machine(joined=None), gpu_9=told("m1", "b2"))[0]
    assert on(machine(joined=None), gpu_9=told("m1", "b2", ready=False))[0] == ""


def test_without_the_cluster_hosts_are_compared_all_the_same() -> None:
    assert said(judge(machine("gpu-1", "gpu-2"), Machines([])))[0] != ""
    assert said(judge(machine(machine_id="m9"), Machines([]))) == ("", "")
