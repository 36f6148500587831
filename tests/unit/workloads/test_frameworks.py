"""Training steps: each on one GPU, both at once where there are GPUs for both."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import Any

import pytest

from gpusmith.snapshot import Holder
from gpusmith.workloads.frameworks import judge
from gpusmith.workloads.judge import Expected
from gpusmith.workloads.outcome import PER_NODE
from tests.unit.workloads.answers import READY, outcomes

NODE = Expected("gpu-1", True, frozenset({"GPU-a"}))


@pytest.mark.parametrize(("uuid", "wrong"), [("GPU-a", 0), ("GPU-x", 1), (None, 1)])
def test_it_names_a_gpu_of_the_host(uuid: str | None, wrong: int) -> None:
    log = json.dumps({"schema": "gpusmith.workload/1", "ok": True, "simulated": True, "uuid": uuid})
    judged = judge(NODE, "pytorch", log)
    assert len(judged.problems) == wrong
    assert judged.tested == (), "one GPU of many is no proof of the node's"


def test_both_run_at_once(run: Any, fake_cluster: Any) -> None:
    create, meeting = fake_cluster.create, threading.Barrier(2, timeout=3)

    def wait_for_the_other(path: str, body: dict[str, Any]) -> Any:
        if body["metadata"]["name"] in ("n0-pytorch", "n0-tensorflow"):
            meeting.wait()
        return create(path, body)

    fake_cluster.create = wait_for_the_other
    assert outcomes(run()[0]["gpu-1"]) == dict.fromkeys(PER_NODE, "passed")


def test_one_after_the_other_on_one_gpu(run: Any, fake_cluster: Any) -> None:
    create = fake_cluster.create
    running: list[str] = []

    def note_thread(path: str, body: dict[str, Any]) -> Any:
        name = body["metadata"]["name"]
        if name in ("n0-pytorch", "n0-tensorflow"):
            running.append(threading.current_thread().name)
        return create(path, body)

    fake_cluster.create, fake_cluster.foreign["gpu-1"] = note_thread, set(fake_cluster.gpus["gpu-1"][:3])
    found, _ = run(gpu_1=replace(READY, holders=(Holder("team", "train", 3),)))
    assert outcomes(found["gpu-1"]) == dict.fromkeys(PER_NODE, "passed")
    assert len(running) == 2
    assert len(set(running)) == 1, "one thread for both"
