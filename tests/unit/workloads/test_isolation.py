"""Pods without a GPU request."""

from __future__ import annotations

import json
from typing import Any

from gpusmith.checks.findings import Outcome
from gpusmith.workloads import isolation
from gpusmith.workloads.judge import Expected
from tests.unit.workloads.answers import before_each_creation


def test_a_probe_that_could_not_be_made_is_no_pass(run: Any) -> None:
    found, _ = run(classes=())
    finding = found["gpu-1"].findings["workloads.isolation"]
    assert finding.outcome is Outcome.FAILED
    assert "RuntimeClass 'nvidia' sees was not tested" in finding.cause


LOOKED = json.dumps({"schema": "gpusmith.workload/1", "ok": True, "simulated": True, "devices": []})
SAW = json.dumps(
    {"schema": "gpusmith.workload/1", "ok": False, "simulated": True, "error": "sees /dev/nvidia0"}
)


def test_each_probe_that_saw_a_gpu_is_named() -> None:
    logs = {"n0-no-request": LOOKED, "n0-visible-all": SAW, "n0-visible-all-runtime": "Traceback"}
    judged = isolation.judge(Expected("gpu-1", True, None), logs, "n0-")
    assert list(judged.evidence) == ["no-request", "visible-all", "visible-all-runtime"]
    saw, broke = judged.problems
    assert "isolation probe 'n0-visible-all' failed: sees /dev/nvidia0" in saw.cause
    assert "accept-nvidia-visible-devices-envvar-when-unprivileged = false" in saw.next_step
    assert "ended without a result" in broke.cause
    assert "accept-nvidia" not in broke.next_step, "a probe that broke says nothing about the runtime"


def test_probes_ask_for_everything_but_a_gpu(run: Any, fake_cluster: Any) -> None:
    asked: dict[str, tuple[Any, Any]] = {}
    made: list[dict[str, Any]] = []
    before_each_creation(fake_cluster, made.append)
    run()
    for body in made:
        spec = body["spec"]["template"]["spec"] if body["kind"] == "Job" else {}
        if spec and "look_around.py" in spec["containers"][0]["command"][-1]:
            env = {row["name"]: row["value"] for row in spec["containers"][0]["env"]}
            assert "limits" not in spec["containers"][0]["resources"]
            asked[body["metadata"]["name"]] = (
                env.get("NVIDIA_VISIBLE_DEVICES"),
                spec.get("runtimeClassName"),
            )
    assert asked == {
        "n0-no-request": (None, None), "n0-visible-all": ("all", None), "n0-visible-all-runtime": ("all", "nvidia"),
    }  # fmt: skip
