"""The plan of a driver upgrade in a real play: shown and kept, refused before anything happens, claimed once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gpusmith.cluster import claims
from gpusmith.cluster.claims import Claim
from gpusmith.names import HOLD, PREVIOUS_DRIVER, STAMP
from gpusmith.owner import process
from gpusmith.paths import repo_root
from tests.unit.cluster.conftest import KUBECONFIG
from tests.unit.expect.converged import converged_record
from tests.unit.hosts import VERSION
from tests.unit.objects import node
from tests.unit.records import other_record

NEW = "580.190.02"
ON_NODE = {
    "users": [
        "process 7 'python3' (user 'ann', no unit) with /dev/nvidia0",
        "process 8 'plugin' (user 'root', pod u8) with /dev/nvidiactl",
    ],
    "holders": [{"pid": 7, "pod_uid": None}, {"pid": 8, "pod_uid": "u8"}, {"pid": 9, "pod_uid": None}],
}


class Api(ThreadingHTTPServer):
    """Two Nodes, no pods, and the object of claims."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.nodes = {name: node() for name in ("gpu-1", "gpu-2")}
        for name, row in self.nodes.items():
            stamp = json.dumps({"driver": VERSION, "time": "2026-01-01T00:00:00Z"})
            row["metadata"].update(name=name, annotations={STAMP: stamp})
            record = record_of(name)["host"]
            row["status"]["nodeInfo"] = {"machineID": record["machine_id"], "bootID": record["boot_id"]}
        self.pods: list[dict[str, Any]] = []
        self.data: dict[str, str] = {}
        self.claims: list[str] = []


class Handler(BaseHTTPRequestHandler):
    server: Api

    def answer(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.command == "PATCH":
            for name, text in json.loads(sent)["data"].items():
                self.server.data.pop(name, None)
                if text is not None:
                    self.server.data[name] = text
                    self.server.claims.append(text)
        kind = self.path.partition("?")[0].rpartition("/")[2]
        lists = {
            "nodes": list(self.server.nodes.values()),
            "pods": self.server.pods,
            "poddisruptionbudgets": [],
        }
        found: Any = {"metadata": {"resourceVersion": "1"}, "data": self.server.data}
        text = json.dumps({"items": lists[kind]} if kind in lists else found).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_PATCH = answer  # noqa: N815 - names of the base class

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def api() -> Iterator[Api]:
    made = Api()
    threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def record_of(name: str) -> dict[str, Any]:
    if name == "gpu-1":
        return converged_record()
    other = other_record()
    return {**converged_record(), "host": other["host"], "kubernetes": other["kubernetes"]}


def run(folder: Path, api: Api, *words: str, **asked: Any) -> tuple[int, str, dict[str, Any]]:
    """Exit status and output of a play that plans, and plan.json."""
    (folder / "kubeconfig").write_text(KUBECONFIG.format(server=f"http://127.0.0.1:{api.server_port}"))
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
    (folder / "hosts.json").write_text(json.dumps({"gpu_nodes": {"hosts": rows}}))
    arguments = {
        "kubeconfig": str(folder / "kubeconfig"),
        "version": NEW,
        "report_dir": str(folder / "reports"),
        **asked,
    }
    tasks = [
        {"gpusmith.gpu.driver_upgrade_plan": arguments, "register": "plan", "run_once": True},
        {"ansible.builtin.debug": {"msg": "queue: {{ plan.queue | join(' ') }}"}, "run_once": True},
    ]
    (folder / "play.json").write_text(
        json.dumps([{"hosts": "gpu_nodes", "gather_facts": False, "tasks": tasks}])
    )
    program = Path(sys.executable).parent / "ansible-playbook"
    done = subprocess.run(
        [str(program), "-i", str(folder / "hosts.json"), str(folder / "play.json"), *words],
        env={**os.environ, "NO_COLOR": "1", "ANSIBLE_CONFIG": str(repo_root() / "ansible.cfg")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=folder,
    )
    files = sorted(folder.glob("reports/*/plan.json"))
    plan: dict[str, Any] = json.loads(files[-1].read_text()) if files else {}
    return done.returncode, done.stdout + done.stderr, plan


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
