"""Action plugin allocatable_wait: what it waits for is what the inventory wants of each host's node."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import trust_as_template
from ansible_collections.gpusmith.gpu.plugins.action import allocatable_wait

from gpusmith.cluster.allocatable import Offered
from gpusmith.wanted.offers import whole


class HostVars(dict[str, Any]):
    def raw_get(self, host: str) -> Any:
        return self[host]


@pytest.mark.parametrize(
    ("reached", "check", "namespace", "operands"),
    [
        (True, False, "ours", []),
        (False, False, "ours", ["denied"]),
        (False, True, "ours", []),
        (False, False, "", []),
    ],
)
def test_it_waits_for_the_offers_of_each_hosts_node_and_says_what_keeps_them(
    monkeypatch: pytest.MonkeyPatch, reached: bool, check: bool, namespace: str, operands: list[str]
) -> None:
    waited: dict[str, Any] = {}

    def wait_for(_cluster: Any, expected: dict[str, Any], *_: Any) -> dict[str, Offered]:
        waited.update(expected)
        return {name: Offered(True, 8, reached, "Ready") for name in expected}

    monkeypatch.setattr(allocatable_wait, "Cluster", lambda _: None)
    monkeypatch.setattr(allocatable_wait.allocatable, "wait_for", wait_for)
    monkeypatch.setattr(allocatable_wait.operands, "troubles", lambda _cluster, _namespace: ["denied"])
    action = allocatable_wait.ActionModule.__new__(allocatable_wait.ActionModule)
    action._loader = DataLoader()
    action.variables = {
        "hostvars": HostVars({"GPU-1": {"gpusmith_gpu_count": trust_as_template("{{ 4 * 2 }}")}})
    }
    asked = {"kubeconfig": "k", "hosts": ["GPU-1"], "labels": [], "namespace": namespace, "timeout": 1.0}
    found = action.act(asked, check)
    assert waited == {"gpu-1": whole(8)}, "names of Nodes are in lower case"
    assert found["nodes"]["GPU-1"]["reached"] is reached
    assert found["operands"] == operands
