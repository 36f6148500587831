"""What the cluster says of the machines behind its Nodes."""

from __future__ import annotations

import base64
from typing import Any

from gpusmith.cluster.machines import ROOT, nodes_for
from gpusmith.expect.identity import Machine, Told
from gpusmith.node.records import parse
from tests.unit.cluster.conftest import Memory
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
    nodes, cordoned = nodes_for(
        memory(spec__unschedulable=True).cluster, [machine("gpu-1"), machine("new", False)]
    )
    assert nodes.told == {"gpu-1": Told("m", "b", "s", True, 1767225600.0)}
    assert cordoned == ("gpu-1",)
    assert nodes_for(memory().cluster, [machine("new", False)])[1] == ()


def test_the_clusters_certificates_are_asked_for_only_where_a_node_is_missing() -> None:
    there = memory()
    assert nodes_for(there.cluster, [machine("gpu-1"), machine("new", False)])[0].authorities == frozenset()
    assert there.asked == []
    assert len(nodes_for(there.cluster, [machine("gpu-2")])[0].authorities) == 1
    del there.objects[ROOT]
    assert nodes_for(there.cluster, [machine("gpu-2")])[0].authorities == frozenset()
