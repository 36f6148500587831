"""A node is stamped by what the results say of its host, whose name in the inventory may be another one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpusmith.gpu.plugins.action import node_stamp, validation_plan

from gpusmith.cluster import condition, stamps
from gpusmith.names import CONDITION, STAMP
from gpusmith.paths import repo_root
from gpusmith.problems import Problem
from gpusmith.verdict.changes import TELLS
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
        {**check("cluster", "failed", cause="It is down."), "id": "monitoring.prometheus"},
        check("gpu-1"),
        check("gpu-2", "failed", cause="It is lost.", next_step="Reset it."),
        check("cluster"),
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
    assert answer[TELLS] == {host: {"notes": ["monitoring.prometheus: It is down."]}}


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


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(
    ("stamp", "before", "wanted", "policy", "after"),
    [
        (STAMP_OF_FACTS, None, True, "if_needed", "True"),
        (STAMP_OF_FACTS, "True", True, "if_needed", "True"),
        (STAMP_OF_FACTS, "False", True, "never", "True"),
        (STAMP_OF_FACTS, "True", False, "if_needed", None),
        (STAMP_OF_FACTS, None, False, "if_needed", None),
        # Of what is validated now, or was never proved, a stamp says nothing.
        (None, None, True, "if_needed", None),
        (None, "False", True, "never", "False"),
        (STAMP_OF_FACTS, None, True, "always", None),
    ],
)
def test_the_condition_follows_the_stamp_where_nothing_is_validated(
    monkeypatch: pytest.MonkeyPatch,
    stamp: str | None,
    before: str | None,
    wanted: bool,
    policy: str,
    after: str | None,
    check: bool,
) -> None:
    """Who asks for it on nodes that are proved gets it without another validation, and the run after that changes nothing."""
    there = {**node(stamp), "status": {"conditions": []}}
    memory = Memory({"/api/v1/nodes/gpu-1": there})
    monkeypatch.setattr(validation_plan, "Cluster", lambda _: memory.cluster)
    if before:
        problem = None if before == "True" else Problem("GPU 3 is lost.", "")
        condition.put(memory.cluster, there, problem, dry_run=False)
        memory.done.clear()
        memory.dry.clear()
    nodes = {"gpu-1": {"node": "gpu-1", "facts": FACTS, "condition": wanted}}
    asked = {"kubeconfig": "k", "nodes": nodes, "policy": policy}
    changes = before != after
    answer = validation_plan.ActionModule.act(None, asked, check)
    assert answer["changed"] is changes
    assert memory.dry == ({check} if changes else set())
    done = "set" if after else "removed"
    assert answer.get(TELLS, {}) == (
        {"gpu-1": {"changes": {"more": [f"condition '{CONDITION}' is {done}"]}}} if changes else {}
    )
    if not check:
        found = condition.of_node(memory.objects["/api/v1/nodes/gpu-1"])
        assert (found["status"] if found else None) == after
        assert not validation_plan.ActionModule.act(None, asked, check)["changed"]
