"""What the cluster says of the machines behind its Nodes."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from gpusmith.change.ledger import State
from gpusmith.cluster.machines import ROOT, nodes_for
from gpusmith.expect.identity import Machine, Told
from gpusmith.names import UPGRADE
from gpusmith.node.records import parse
from gpusmith.probe.module import UPGRADE_BLOCK
from tests.unit.cluster.conftest import Memory
from tests.unit.ledgers import ledger
from tests.unit.objects import node
from tests.unit.records import healthy_record


def machine(host: str, joined: bool = True) -> Machine:
    raw = healthy_record()
    raw["kubernetes"].update(joined=joined, node_name=host if joined else None)
    return Machine(host, host, host, parse(raw))


def memory(**changes: Any) -> Memory:
    der = base64.b64encode(b"authority").decode()
    pem = f"-----BEGIN CERTIFICATE-----\n{der}\n-----END CERTIFICATE-----\n"
    return Memory({"/api/v1/nodes/gpu-1": node(**changes), ROOT: {"metadata": {}, "data": {"ca.crt": pem}}})


def test_nodes_tell_their_machines_and_cordons() -> None:
    seen = nodes_for(memory(spec__unschedulable=True).cluster, [machine("gpu-1"), machine("new", False)])
    assert seen.nodes.told == {"gpu-1": Told("m", "b", "s", True, 1767225600.0)}
    assert seen.cordoned == ("gpu-1",)
    assert nodes_for(memory().cluster, [machine("new", False)]).cordoned == ()


@pytest.mark.parametrize(
    ("entry", "joined", "says"),
    [
        (
            ledger(state=State.STUCK, reason="CUDA fails"),
            True,
            "is 'stuck' since 2026-11-22T10:00:00Z (CUDA fails).",
        ),
        (
            ledger(),
            True,
            "Node 'gpu-1': its driver upgrade from 580.178.04 to 580.200.01 is 'admitted' since",
        ),
        ("[]", True, "Node 'gpu-1': "),
        (ledger(state=State.DONE), True, None),
        # Installed anew: what the ledger tells of is gone, and the join drops it.
        (ledger(), False, None),
    ],
    ids=["stuck", "admitted", "unreadable", "done", "installed anew"],
)
def test_a_node_whose_upgrade_is_not_finished_is_named(entry: str, joined: bool, says: str | None) -> None:
    there = memory(metadata__annotations={UPGRADE: entry})
    upgrading = nodes_for(there.cluster, [machine("gpu-1", joined)]).upgrading
    assert set(upgrading) == ({"gpu-1"} if says else set())
    if says:
        assert says in upgrading["gpu-1"].message
        command = "ansible-playbook -i INVENTORY playbooks/upgrade_driver.yml -l gpu-1 -e gpu_upgrade_version=580.200.01"
        assert (f"'{command}'" in upgrading["gpu-1"].hint) is (entry != "[]")
        assert "'kubectl annotate node gpu-1 gpusmith.io/driver-upgrade-'" in upgrading["gpu-1"].hint
        assert UPGRADE_BLOCK in upgrading["gpu-1"].hint


def test_the_clusters_certificates_are_asked_for_only_where_a_node_is_missing() -> None:
    there = memory()
    assert (
        nodes_for(there.cluster, [machine("gpu-1"), machine("new", False)]).nodes.authorities == frozenset()
    )
    assert there.asked == []
    assert len(nodes_for(there.cluster, [machine("gpu-2")]).nodes.authorities) == 1
    del there.objects[ROOT]
    assert nodes_for(there.cluster, [machine("gpu-2")]).nodes.authorities == frozenset()
