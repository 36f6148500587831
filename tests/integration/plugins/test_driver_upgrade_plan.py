"""The plan of a driver upgrade in a real play: shown and kept, refused before anything happens, claimed once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpusmith.change.ledger import State
from gpusmith.cluster import claims
from gpusmith.cluster.claims import Claim
from gpusmith.names import HOLD, PREVIOUS_DRIVER, STAMP, UPGRADE
from gpusmith.owner import process
from tests.integration.plugins.plays import Api, kubeconfig, play, serving
from tests.unit.expect.converged import converged_record
from tests.unit.hosts import VERSION
from tests.unit.ledgers import ledger
from tests.unit.objects import node
from tests.unit.records import other_record

NEW = "580.190.02"
MARKED = "; ".join(
    "WORD={{ plan.hosts | dict2items | selectattr('value.WORD') | map(attribute='key') | join }}".replace(
        "WORD", word
    )
    for word in ("back", "rollback")
)
ON_NODE = {
    "users": [
        "process 7 'python3' (user 'ann', no unit) with /dev/nvidia0",
        "process 8 'plugin' (user 'root', pod u8) with /dev/nvidiactl",
    ],
    "holders": [{"pid": 7, "pod_uid": None}, {"pid": 8, "pod_uid": "u8"}, {"pid": 9, "pod_uid": None}],
}


@pytest.fixture
def api() -> Iterator[Api]:
    nodes = {name: node() for name in ("gpu-1", "gpu-2")}
    for name, row in nodes.items():
        stamp = json.dumps({"driver": VERSION, "time": "2026-01-01T00:00:00Z"})
        row["metadata"].update(name=name, annotations={STAMP: stamp})
        record = record_of(name)["host"]
        row["status"]["nodeInfo"] = {"machineID": record["machine_id"], "bootID": record["boot_id"]}
    with serving(nodes) as made:
        yield made


def record_of(name: str) -> dict[str, Any]:
    if name == "gpu-1":
        return converged_record()
    other = other_record()
    return {**converged_record(), "host": other["host"], "kubernetes": other["kubernetes"]}


def run(folder: Path, api: Api, *words: str, **asked: Any) -> tuple[int, str, dict[str, Any]]:
    """Exit status and output of a play that plans, and plan.json."""
    rows = {
        name: {
            "node_record_now": {"record": record_of(name)},
            "__preflight_answer": {"refusals": []},
            "__gpu_upgrade_used": ON_NODE,
            "gpusmith_gpu_count": 4,
            "gpusmith_gpu_model": "h100-sxm",
        }
        for name in api.nodes
    }
    arguments = {
        "kubeconfig": kubeconfig(folder, api),
        "version": NEW,
        "report_dir": str(folder / "reports"),
        **asked,
    }
    tasks = [
        {"gpusmith.gpu.driver_upgrade_plan": arguments, "register": "plan", "run_once": True},
        {
            "ansible.builtin.debug": {"msg": "queue: {{ plan.queue | join(' ') }}; " + MARKED},
            "run_once": True,
        },
    ]
    status, output = play(folder, rows, {"tasks": tasks}, *words)
    files = sorted(folder.glob("reports/*/plan.json"))
    plan: dict[str, Any] = json.loads(files[-1].read_text()) if files else {}
    return status, output, plan


def test_the_plan_is_shown_and_kept_and_nodes_and_budget_are_claimed(tmp_path: Path, api: Api) -> None:
    status, output, plan = run(tmp_path, api)
    assert status == 0, output
    assert "queue: gpu-1 gpu-2" in output
    assert f"{VERSION}" in output
    assert [(row["name"], row["action"], row["wave"]) for row in plan["nodes"]] == [
        ("gpu-1", "upgrade", 1),
        ("gpu-2", "upgrade", 2),
    ]
    assert plan["would_change"]
    assert [len(row["holders"]) for row in plan["nodes"]] == [1, 1]
    assert "Without a pod on gpu-1: process 7" in output
    assert "process 8" not in output
    (claimed,) = map(json.loads, api.claims)
    assert set(claimed["nodes"]) == {"gpu-1", "gpu-2", "driver upgrades"}


def test_check_mode_claims_nothing(tmp_path: Path, api: Api) -> None:
    status, output, plan = run(tmp_path, api, "--check")
    assert status == 0, output
    assert plan["would_change"]
    assert f"gets driver {NEW} instead of {VERSION} in wave 2" in output
    assert api.claims == []


def test_what_cannot_work_is_refused_for_all_hosts_at_once(tmp_path: Path, api: Api) -> None:
    status, output, plan = run(tmp_path, api, version="580.95.05")
    assert status != 0
    assert "downgrade" in output
    assert "gpu-1, gpu-2 |" in output
    assert plan["refused"]
    assert not plan["would_change"]
    assert api.claims == []


def test_a_second_upgrade_is_refused_also_on_other_nodes(tmp_path: Path, api: Api) -> None:
    mine = process()
    other = Claim(
        "other", "upgrade_driver.yml", "ann@ops", "2026-11-22T11:00:00Z", mine, mine, {"driver upgrades": ""}
    )
    api.data["other"] = claims.written(other)
    status, output, _ = run(tmp_path, api)
    assert status != 0
    assert "ann@ops" in output
    assert "2026-11-22T11:00:00Z" in output


def test_held_and_cordoned_nodes_are_left_alone_and_named(tmp_path: Path, api: Api) -> None:
    api.nodes["gpu-1"]["metadata"]["annotations"][HOLD] = "demo on friday"
    status, output, plan = run(tmp_path, api)
    assert status == 0, output
    assert "queue: gpu-2" in output
    (held,) = (row for row in plan["nodes"] if row["name"] == "gpu-1")
    assert held["action"] == "skip"
    assert HOLD in held["reason"]


def test_a_rollback_goes_by_what_each_node_remembers(tmp_path: Path, api: Api) -> None:
    api.nodes["gpu-2"]["metadata"]["annotations"][PREVIOUS_DRIVER] = json.dumps({"version": "580.95.05"})
    status, output, plan = run(tmp_path, api, back=True, version="")
    assert status == 0, output
    assert "queue: gpu-2" in output
    assert {row["name"]: row["action"] for row in plan["nodes"]} == {"gpu-1": "none", "gpu-2": "upgrade"}
    assert "580.95.05" in output


def test_a_rollback_takes_nodes_that_the_driver_broke_however_many_they_are(tmp_path: Path, api: Api) -> None:
    for row in api.nodes.values():
        row["metadata"]["annotations"][PREVIOUS_DRIVER] = json.dumps({"version": "580.95.05"})
        row["status"]["allocatable"]["nvidia.com/gpu"] = "0"
    status, output, plan = run(tmp_path, api, back=True, version="", canary=0)
    assert status == 0, output
    assert [(row["action"], row["wave"]) for row in plan["nodes"]] == [("upgrade", 1), ("upgrade", 1)]
    assert "out already: 0 of 4 GPUs offered" in output


@pytest.mark.parametrize(("rollback", "target"), [(False, VERSION), (True, NEW)])
def test_a_rollback_goes_on_and_an_upgrade_is_taken_back(
    tmp_path: Path, api: Api, rollback: bool, target: str
) -> None:
    half = ledger(state=State.CHANGING, target=NEW, origin=VERSION, rollback=rollback)
    api.nodes["gpu-1"]["metadata"]["annotations"][UPGRADE] = half
    api.nodes["gpu-1"]["spec"]["unschedulable"] = True
    status, output, plan = run(tmp_path, api, back=True, version="")
    assert status == 0, output
    (row,) = (row for row in plan["nodes"] if row["name"] == "gpu-1")
    assert (row["action"], row["target"]) == ("resume", target)
    assert ("back=; rollback=gpu-1" if rollback else "back=gpu-1; rollback=") in output
