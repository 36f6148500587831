"""Bridges of a pod network, by its configuration."""

from __future__ import annotations

import json

from gpusmith.expect.pod_network import bridges


def test_bridges_are_named_once() -> None:
    plain = json.dumps({"type": "bridge", "isDefaultGateway": True})
    listed = json.dumps(
        {
            "plugins": [
                {"type": "bridge", "bridge": "pods0", "isGateway": True},
                {"type": "portmap"},
                {"type": "flannel"},
            ]
        }
    )
    delegating = json.dumps({"plugins": [{"type": "flannel", "delegate": {"bridge": "fl0"}}]})
    assert bridges([plain, listed, delegating]) == ["cni0", "pods0", "fl0"]


def test_a_bridge_of_the_machines_own_network_is_none_of_them() -> None:
    assert bridges([json.dumps({"type": "bridge", "bridge": "br0"})]) == []


def test_other_networks_have_none() -> None:
    assert (
        bridges(["", "[]", "{", '{"plugins": 1}', '{"plugins": [1, {"type": "calico", "bridge": "no"}]}'])
        == []
    )
