"""What the CUDA program proves."""

from __future__ import annotations

import json
from typing import Any

from gpusmith.wanted.offers import devices
from gpusmith.workloads.cuda import judge
from gpusmith.workloads.judge import Expected

NODE = Expected("gpu-1", True, devices({"GPU-a", "GPU-b"}))


def log(*uuids: str, **changes: Any) -> str:
    devices = [{"uuid": uuid} for uuid in uuids]
    return json.dumps(
        {"schema": "gpusmith.workload/1", "ok": True, "simulated": True, "devices": devices, **changes}
    )


def test_every_gpu_that_was_given_is_tested() -> None:
    judged = judge(NODE, log("GPU-b", "GPU-a"), 2)
    assert (judged.problems, judged.tested) == ([], ("GPU-b", "GPU-a"))


def test_a_gpu_that_failed_counts_as_tested_once() -> None:
    judged = judge(NODE, log("GPU-a", "GPU-a", ok=False, error="wrong result"), 2)
    assert "wrong result" in judged.problems[0].cause
    assert judged.tested == ("GPU-a",)


def test_without_a_result_nothing_was_tested() -> None:
    judged = judge(NODE, "Traceback", 2)
    assert (len(judged.problems), judged.tested) == (1, ())


def test_one_gpu_too_few_is_no_pass() -> None:
    assert "saw 1 GPUs, it was given 2" in judge(NODE, log("GPU-a"), 2).problems[0].cause
