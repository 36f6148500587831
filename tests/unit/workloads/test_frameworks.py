"""Training steps: each on one GPU, both at once where there are GPUs for both."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gpusmith.cluster.holders import Holder
from gpusmith.wanted.offers import devices
from gpusmith.workloads.frameworks import judge
from gpusmith.workloads.judge import Expected
from tests.unit.objects import gpus
from tests.unit.workloads.answers import READY, all_passed, before_each_creation, outcomes

NODE = Expected("gpu-1", True, devices({"GPU-a", "GPU-b"}))
BOTH = ("n0-pytorch", "n0-tensorflow")


@pytest.mark.parametrize(
    ("uuids", "wrong"), [(["GPU-a", "GPU-b"], 0), (["GPU-a", "GPU-x"], 1), (["GPU-a"], 1), (None, 1)]
)
def test_it_names_the_gpus_of_the_host(uuids: list[str] | None, wrong: int) -> None:
    log = json.dumps({"schema": "gpusmith.workload/1", "ok": True, "simulated": True, "uuids": uuids})
    judged = judge(NODE, "pytorch", log, 2)
    assert len(judged.problems) == wrong
    assert judged.tested == (), "only the CUDA workload's kernels count as a test of a GPU"


def test_each_has_all_free_gpus(run: Any, fake_cluster: Any) -> None:
    asked: dict[str, str] = {}

    def note(body: dict[str, Any]) -> None:
        name = body["metadata"]["name"]
        if name in BOTH:
            (container,) = body["spec"]["template"]["spec"]["containers"]
            asked[name] = container["resources"]["limits"]["nvidia.com/gpu"]

    before_each_creation(fake_cluster, note)
    fake_cluster.foreign["gpu-1"] = set(fake_cluster.gpus["gpu-1"][:1])
    found, _ = run(gpu_1=replace(READY, holders=(Holder("team", "train", gpus(1)),)))
    assert outcomes(found["gpu-1"]) == all_passed()
    assert asked == dict.fromkeys(BOTH, "3")
