"""A node is stamped by what the results say of its host, whose name in the inventory may be another one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpusmith.gpu.plugins.action import node_stamp, validation_plan

from gpusmith.cluster import stamps
from gpusmith.names import STAMP
from gpusmith.paths import repo_root
from tests.unit.cluster.conftest import Memory
from tests.unit.cluster.test_stamps import FACTS, check, node, results
from tests.unit.cluster.test_stamps import STAMP as STAMP_OF_FACTS


@pytest.mark.parametrize(("host", "proved"), [("gpu-1", True), ("gpu-2", False)])
def test_a_node_of_another_name_than_its_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, proved: bool
) -> None:
    path = "/api/v1/nodes/worker-7.example"
    memory = Memory({path: {"metadata": {"name": "worker-7.example", "resourceVersion": "1"}}})
    monkeypatch.setattr(node_stamp, "Cluster", lambda _: memory.cluster)
    found = results(
        check("gpu-1"), check("gpu-2", "failed", cause="It is lost.", next_step="Reset it."), check("cluster")
    )
    written = tmp_path / "results.json"
    written.write_text(json.dumps(found))
    asked: dict[str, Any] = {
        "kubeconfig": "k",
        "node": "worker-7.example",
        "host": host,
        "results": str(written),
        "not_before": 0.0,
        "condition": False,
        "facts": FACTS,
    }
    answer = node_stamp.ActionModule.act(None, asked, False)
    assert ("failed" not in answer) is proved
    said = f": It is lost. Reset it. See '{tmp_path / 'report.html'}'."
    assert answer.get("msg", "").endswith(said) is not proved
    assert (STAMP in memory.objects[path]["metadata"].get("annotations", {})) is proved
    assert stamps.judge(found, "worker-7.example").problem is not None


def test_the_role_says_which_host_it_is() -> None:
    tasks = yaml.safe_load((repo_root() / "roles/node_stamp/tasks/suite.yml").read_text())
    (asked,) = (task["gpusmith.gpu.node_stamp"] for task in tasks if "gpusmith.gpu.node_stamp" in task)
    (ran,) = (task["gpusmith.gpu.validation_run"] for task in tasks if "gpusmith.gpu.validation_run" in task)
    assert asked["host"] == "{{ inventory_hostname }}"
    # The suite is started with names of hosts.
    assert "__node_stamp_plan.hosts" in str(ran["limit"])


@pytest.mark.parametrize("check", [False, True])
def test_the_plan_knows_of_check_mode(monkeypatch: pytest.MonkeyPatch, check: bool) -> None:
    memory = Memory({"/api/v1/nodes/gpu-1": node(STAMP_OF_FACTS)})
    monkeypatch.setattr(validation_plan, "Cluster", lambda _: memory.cluster)
    nodes = {"gpu-1": {"node": "gpu-1", "facts": {**FACTS, "runtime": "other", "digest": "sha256:b"}}}
    answer = validation_plan.ActionModule.act(
        None, {"kubeconfig": "k", "nodes": nodes, "policy": "if_needed"}, check
    )
    assert answer["reasons"]["gpu-1"].endswith("sets that right") is check
