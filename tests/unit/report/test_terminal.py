"""The summary on the terminal."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from gpusmith.checks.findings import Finding
from gpusmith.report.coverage import GpuCoverage
from gpusmith.report.results import Results
from gpusmith.report.terminal import WIDEST, terminal
from tests.unit.report.samples import FAILED, INFO, PASSED, SKIPPED, results


def shown(found: Results) -> str:
    out = StringIO()
    terminal(found, Path("reports"), Console(file=out, width=100))
    return out.getvalue()


def test_terminal_names_cause_and_next_step() -> None:
    text = shown(results(FAILED, SKIPPED))
    assert "FAILED nodes.ecc on gpu-1" in text
    assert "next:  Reset it." in text
    assert "skipped nodes.fabric on gpu-1: no switches" in text
    assert "Simulated GPUs" in text
    assert "Only a selection of the checks ran" in text
    assert text.rstrip().endswith("FAILED (exit code 1, 2 s)")


def test_addresses_are_no_pictures() -> None:
    """Rich has a picture for ':ab:'."""
    assert "at 0000:ab:00.0" in shown(results(replace(FAILED, cause="A GPU at 0000:ab:00.0")))


def test_follow_ups_and_what_nodes_have_in_common_stand_under_their_cause() -> None:
    names = ("gpu-1", "gpu-2")
    rows = [
        replace(FAILED, check=name, target=node, cause=f"{name}.")
        for name in ("nodes.driver-versions", "nodes.cdi", "nodes.fabric")
        for node in names
    ]
    found = replace(
        results(*rows),
        info=replace(INFO, nodes=(*names, "gpu-3")),
        traits=dict.fromkeys(names, ("kernel 6",)),
    )
    text = shown(found)
    assert text.count("FAILED nodes.") == 1
    assert "  also:  nodes.cdi (2), nodes.fabric (2)\n" in text
    assert "  common: kernel 6; no other node has that\n" in text


def test_what_a_passed_check_accepts_is_shown() -> None:
    passed = replace(PASSED, check="nodes.xid", evidence={"notes": ["GPU 0 [x] reported Xid 31"]})
    assert "noted nodes.xid on gpu-1: GPU 0 [x] reported Xid 31" in shown(results(passed))
    assert "noted" not in shown(results(PASSED))
    twice = shown(results(passed, replace(passed, target="gpu-2")))
    assert "noted nodes.xid on gpu-1, gpu-2: GPU 0 [x] reported Xid 31" in twice


def test_denominators_and_who_is_missing_are_named() -> None:
    text = shown(
        replace(results(PASSED), coverage={"gpu-1": GpuCoverage(8, ("a",), {"team/x": 3}, {"cordoned": 4})})
    )
    assert "GPUs: 8 expected, 1 tested, 3 busy, 4 excluded" in text
    assert "busy: 3 on gpu-1, held by team/x" in text
    assert "excluded: 4 on gpu-1: cordoned" in text


def test_many_nodes_are_counted() -> None:
    nodes = tuple(f"gpu-{n}" for n in range(WIDEST + 1))
    found = replace(
        results(FAILED, *(replace(PASSED, target=name) for name in nodes[2:])),
        info=replace(INFO, nodes=nodes),
    )
    assert "5 passed, 1 failed" in shown(found)


def test_what_many_nodes_share_is_said_once() -> None:
    nodes = tuple(f"gpu-{n}" for n in range(100))
    asked = ("nodes.xid", "nodes.ecc")

    def rows(kind: Finding, check: str, cause: str) -> list[Finding]:
        return [
            replace(kind, check=check, target=name, cause=cause.format(name), next_step="") for name in nodes
        ]

    skipped = [
        row for check in asked for row in rows(SKIPPED, check, "There is no record of node '{}'; see X.")
    ]
    failed = rows(FAILED, "nodes.reachable", "Node '{}' does not answer.")
    text = shown(replace(results(*failed, *skipped), info=replace(INFO, nodes=nodes)))
    assert text.count("There is no record") == text.count("does not answer") == 1
    said = "gpu-[0:9], gpu-[10:99]: There is no record of node 'NODE'; see X."
    assert f"skipped nodes.xid, nodes.ecc on {said}" in text
    assert "FAILED nodes.reachable on gpu-[0:9], gpu-[10:99]" in text


def test_a_fault_of_gpus_is_one_cause_though_each_has_a_uuid_of_its_own() -> None:
    nodes = tuple(f"gpu-{n:05d}" for n in range(17))
    rows = [
        replace(
            FAILED,
            check="nodes.fabric",
            target=name,
            cause=f"Node '{name}': GPU 0 (GPU-{n:08x}-1111-2222-3333-000000000000, 0000:18:00.0) has not joined.",
            next_step=f"Look on '{name}'.",
        )
        for n, name in enumerate(nodes)
    ]
    text = shown(replace(results(*rows), info=replace(INFO, nodes=nodes)))
    assert text.count("has not joined") == 1
    assert "FAILED nodes.fabric on gpu-[00000:00016]" in text
    assert "Node 'NODE': GPU 0 (UUID, 0000:18:00.0) has not joined." in text


DEAD = "Node '{0}' does not answer over ssh: ssh: connect to host {1} port 22: No route to host"
PING = "Try: ansible -i hosts.ini {0} -m ansible.builtin.ping"


@pytest.mark.parametrize(("count", "living"), [(2, True), (6, False), (100, True)])
def test_nodes_that_do_not_answer_are_one_fact(count: int, living: bool) -> None:
    nodes = [f"gpu-{n}" for n in range(1, count + 1)]
    failed = [
        replace(FAILED, check="nodes.reachable", target=name, cause=DEAD.format(name, f"10.0.0.{n}"), next_step=PING.format(name))
        for n, name in enumerate(nodes)
    ]  # fmt: skip
    skipped = [
        replace(SKIPPED, check=f"nodes.c{n}", target=name, cause="No record.")
        for n in range(29)
        for name in nodes
    ]
    lives = [replace(PASSED, target="lives")] if living else []
    found = results(*failed, *skipped, *lives)
    text = shown(replace(found, info=replace(INFO, nodes=(*nodes, "lives") if living else tuple(nodes))))
    assert len(text.splitlines()) < 22
    named = ", ".join(nodes) if count <= 6 else "gpu-[1:9], gpu-[10:99], gpu-100"
    assert text.count("FAILED nodes.reachable") == text.count("does not answer over") == 1
    assert "connect to host ADDRESS port 22: No route to host" in text
    assert f"ansible -i hosts.ini {','.join(nodes) if count <= 20 else 'NODE'} -m" in text
    assert f"skipped 29 checks on {named}: " in text
    assert (f"Not in the table, since they do not answer: {named}\n" in text) is living


def test_one_node_that_does_not_answer_is_named_with_its_address() -> None:
    dead = replace(FAILED, check="nodes.reachable", cause=DEAD.format("gpu-1", "10.0.0.1"))
    text = shown(results(replace(dead, next_step=PING.format("gpu-1"))))
    assert DEAD.format("gpu-1", "10.0.0.1") in text
    assert "hosts.ini gpu-1 -m" in text


def test_commands_that_take_one_name_are_not_made_one() -> None:
    """kubectl takes several otherwise."""
    rows = [
        replace(FAILED, target=f"gpu-{n}", cause="a", next_step=f"kubectl uncordon gpu-{n}") for n in (1, 2)
    ]
    text = shown(results(*rows))
    assert "kubectl uncordon gpu-1\n" in text
    assert "kubectl uncordon gpu-2\n" in text


def test_a_cause_of_one_node_names_it() -> None:
    text = shown(
        results(
            replace(FAILED, cause="Node 'gpu-1' is hot."),
            replace(FAILED, cause="Node 'gpu-2' is cold.", target="gpu-2"),
        )
    )
    assert "Node 'gpu-1' is hot." in text
    assert "Node 'gpu-2' is cold." in text


def test_a_pass_says_on_what_user_land_it_was() -> None:
    land = "Rocky 9 packages on a Debian user land"
    told = replace(results(), info=replace(INFO, user_lands={"gpu-2": land}))
    text = " ".join(shown(told).split())
    assert f"PASSED (simulated GPUs; gpu-2: {land})" in text
    assert f"gpu-2: {land}. Nothing is proved about that distribution's own programs." in text


def test_a_run_for_an_upgrade_says_so() -> None:
    info = replace(INFO, maintenance_id="u1", driver_version="580.200.01")
    text = shown(replace(results(), info=info))
    assert "Tested in maintenance u1, with the nodes that it cordoned, for driver 580.200.01" in text
    alone = shown(replace(results(), info=replace(info, maintenance_id="")))
    assert "Tested for driver 580.200.01, whatever the inventory says." in alone
    assert "Tested" not in shown(results())
