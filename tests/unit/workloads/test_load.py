"""What slowed GPUs down under load."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.checks.findings import Finding, Outcome, Skip
from gpusmith.workloads import load
from tests.unit.hosts import make_host
from tests.unit.workloads.answers import answer


def judged(**rows: dict[str, int]) -> Finding:
    evidence = {"slowdowns": {f"GPU-{name}": row for name, row in rows.items()}, "load_s": 10.0}
    found = load.judge(make_host(), Finding("workloads.cuda", "gpu-1", Outcome.PASSED, evidence=evidence))
    assert found is not None
    assert (found.check, found.target, found.simulated) == ("workloads.throttle", "gpu-1", True)
    return found


GOOD = {"reasons": 0x1 | 0x4, "looks": 3}
NO_VALUE = {"reasons": 0, "looks": 0, "code": 3}


def test_an_idle_gpu_and_a_power_cap_are_well() -> None:
    found = judged(a=GOOD, b=GOOD)
    assert found.outcome is Outcome.PASSED
    assert found.evidence == {
        "load_s": 10.0,
        "reasons": {"GPU-a": ["sw_power_cap"], "GPU-b": ["sw_power_cap"]},
    }


@pytest.mark.parametrize(
    ("reasons", "says"),
    [
        (0x8 | 0x40, "(hw_slowdown, hw_thermal_slowdown)"),
        (0x20, "the driver slows it down because it is too hot"),
        (0x80, "power supply"),
    ],
)
def test_a_gpu_that_is_slow_under_load_is_named(reasons: int, says: str) -> None:
    found = judged(a=GOOD, b={"reasons": reasons, "looks": 1})
    assert found.outcome is Outcome.FAILED
    assert "GPU-b is throttled under load" in found.cause
    assert says in found.cause
    assert "GPU-a" not in found.cause


def test_what_cannot_be_read_is_no_pass() -> None:
    assert judged(a=NO_VALUE, b=NO_VALUE).skip is Skip.NOT_APPLICABLE
    partly = judged(a=GOOD, b=NO_VALUE)
    assert (partly.outcome, "GPU-b" in partly.cause) == (Outcome.FAILED, True)
    lost = judged(a={"reasons": 0, "looks": 0, "code": 15})
    assert (lost.outcome, "code 15" in lost.cause) == (Outcome.FAILED, True)


@pytest.mark.parametrize(
    ("says", "outcome"),
    [
        (answer(slowdowns={"GPU-a": {"reasons": 0x40, "looks": 1}}), Outcome.FAILED),
        (answer(ok=False, error="wrong", slowdowns={}), Outcome.FAILED),
    ],
    ids=["hot", "CUDA failed"],
)
def test_in_a_run(run: Any, fake_cluster: Any, says: Any, outcome: Outcome) -> None:
    fake_cluster.answers["run_cuda.py"] = says
    assert run()[0]["gpu-1"].findings["workloads.throttle"].outcome is outcome


def test_the_program_is_told_how_long(run: Any, fake_cluster: Any) -> None:
    told: list[str] = []
    good = fake_cluster.answers["run_cuda.py"]

    def note(env: dict[str, str], uuids: list[str]) -> Any:
        told.append(env["GPUSMITH_LOAD_S"])
        return good(env, uuids)

    fake_cluster.answers["run_cuda.py"] = note
    run(values={"validation_load_s": 300})
    assert told == ["300"]
