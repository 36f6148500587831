"""Action plugin allocatable_wait: what it waits for is what the inventory wants of each host's node."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import trust_as_template
from ansible_collections.gpusmith.gpu.plugins.action import allocatable_wait

from gpusmith.cluster.allocatable import Offered
from gpusmith.paths import repo_root
from tests.unit.cluster.roles import filled_in
from tests.unit.records import healthy_record


class HostVars(dict[str, Any]):
    def raw_get(self, host: str) -> Any:
        return self[host]


@pytest.mark.parametrize(
    ("reached", "check", "namespace", "operands", "looked"),
    [
        (True, False, "ours", [], True),
        (False, False, "ours", ["denied"], True),
        (False, True, "ours", [], True),
        (False, False, "", [], False),
    ],
)
def test_it_waits_for_the_offers_of_each_hosts_node_and_says_what_keeps_them(
    monkeypatch: pytest.MonkeyPatch,
    reached: bool,
    check: bool,
    namespace: str,
    operands: list[str],
    looked: bool,
) -> None:
    waited: dict[str, Any] = {}
    told: dict[str, str] = {}

    def wait_for(
        _cluster: Any, expected: dict[str, Any], _labels: Any, _timeout: Any, spare: dict[str, str]
    ) -> dict[str, Offered]:
        waited.update(expected)
        told.update(spare)
        return {name: Offered(True, 8, reached, "Ready") for name in expected}

    monkeypatch.setattr(allocatable_wait, "Cluster", lambda _: None)
    monkeypatch.setattr(allocatable_wait.allocatable, "wait_for", wait_for)
    monkeypatch.setattr(allocatable_wait.operands, "troubles", lambda _cluster, _namespace: ["denied"])
    action = allocatable_wait.ActionModule.__new__(allocatable_wait.ActionModule)
    action._loader = DataLoader()
    record = healthy_record()
    record["pci"]["left_out"] = [{"address": "0000:c1:00.0", "device_id": "10de:1fb0", "driver": "nvidia"}]
    of_host = {"gpusmith_gpu_count": trust_as_template("{{ 4 * 2 }}"), "node_record_now": {"record": record}}
    action.variables = {
        "hostvars": HostVars({"GPU-1": of_host if looked else {**of_host, "node_record_now": {}}})
    }
    asked = {"kubeconfig": "k", "hosts": ["GPU-1"], "labels": [], "namespace": namespace, "timeout": 1.0}
    found = action.act(asked, check)
    assert waited == {"gpu-1": 8}, "names of Nodes are in lower case"
    assert found["nodes"]["GPU-1"]["reached"] is reached
    assert found["operands"] == operands
    assert ("vfio-pci" in told["gpu-1"]) is looked


@pytest.mark.parametrize(
    ("next_step", "says"),
    [
        (
            "",
            " after 180 s: Ready with 4 of 3. denied Look at 'kubectl -n gpusmith-system get pods -o wide' and",
        ),
        ("Bind it.", ": Ready with 4 of 3. denied Bind it."),
    ],
)
def test_the_role_names_what_helps(next_step: str, says: str) -> None:
    tasks = yaml.safe_load((repo_root() / "roles/gpu_operands/tasks/verify.yml").read_text())
    seen = asdict(Offered(True, 4, False, "Ready with 4 of 3", next_step))
    said = filled_in(
        tasks[1]["ansible.builtin.assert"]["fail_msg"],
        **tasks[1]["vars"],
        inventory_hostname="gpu-1",
        gpu_operands_ready_timeout_s=180,
        __gpu_operands_allocatable={"nodes": {"gpu-1": seen}, "operands": ["denied"]},
    )
    assert said.startswith(f"Node 'gpu-1' does not offer its GPUs{says}")
