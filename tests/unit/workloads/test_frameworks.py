"""Training steps: each on one GPU, both at once where there are GPUs for both."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import Any

import pytest

from gpusmith.cluster.holders import Holder
from gpusmith.wanted.offers import devices
from gpusmith.workloads.frameworks import judge
from gpusmith.workloads.judge import Expected
from gpusmith.workloads.outcome import per_node
from tests.unit.objects import gpus
from tests.unit.workloads.answers import READY, before_each_creation, outcomes

NODE = Expected("gpu-1", True, devices({"GPU-a"}))
BOTH = ("n0-pytorch", "n0-tensorflow")


@pytest.mark.parametrize(("uuid", "wrong"), [("GPU-a", 0), ("GPU-x", 1), (None, 1)])
def test_it_names_a_gpu_of_the_host(uuid: str | None, wrong: int) -> None:
    log = json.dumps({"schema": "gpusmith.workload/1", "ok": True, "simulated": True, "uuid": uuid})
    judged = judge(NODE, "pytorch", log)
    assert len(judged.problems) == wrong
    assert judged.tested == (), "one GPU of many is no proof of the node's"


def test_both_run_at_once(run: Any, fake_cluster: Any) -> None:
    meeting = threading.Barrier(2, timeout=20)
    before_each_creation(fake_cluster, lambda body: body["metadata"]["name"] in BOTH and meeting.wait())
    assert outcomes(run()[0]["gpu-1"]) == dict.fromkeys(per_node(), "passed")


def test_one_after_the_other_on_one_gpu(run: Any, fake_cluster: Any) -> None:
    running: list[str] = []

    def note_thread(body: dict[str, Any]) -> None:
        if body["metadata"]["name"] in BOTH:
            running.append(threading.current_thread().name)

    before_each_creation(fake_cluster, note_thread)
    fake_cluster.foreign["gpu-1"] = set(fake_cluster.gpus["gpu-1"][:3])
    found, _ = run(gpu_1=replace(READY, holders=(Holder("team", "train", gpus(3)),)))
    assert outcomes(found["gpu-1"]) == dict.fromkeys(per_node(), "passed")
    assert len(running) == 2
    assert len(set(running)) == 1, "one thread for both"
