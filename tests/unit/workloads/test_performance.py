"""What rates prove of GPUs: by the table, and among their like."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpusmith.checks.findings import Finding, NotApplicable, Outcome, Skip
from gpusmith.wanted.offers import devices
from gpusmith.workloads import uniformity
from gpusmith.workloads.judge import Expected, Judged
from gpusmith.workloads.outcome import NodeOutcome
from gpusmith.workloads.performance import judge, rows_of
from tests.unit.fake_cluster import H100
from tests.unit.hosts import make_host

NODE = Expected("gpu-1", False, devices({"GPU-a"}))
T4 = {
    "name": "Tesla T4",
    "memory_gb_s": 244,
    "gemm_tflops": 40,
    "h2d_gb_s": 12,
    "d2h_gb_s": 12,
    "pcie_gen": 3,
    "pcie_gen_max": 3,
}
REAL = {"gpusmith_simulated": False}


def judged(own: dict[str, Any] | None = None, **changes: Any) -> Judged:
    device = {"uuid": "GPU-a", **H100, **changes}
    said = {"schema": "gpusmith.workload/1", "ok": True, "simulated": False, "devices": [device]}
    return judge(NODE, json.dumps(said), 1, rows_of(make_host(validation_baselines=own)))


@pytest.mark.parametrize(
    ("changes", "notes", "problems"),
    [
        ({}, "", ""),
        (T4, "", ""),
        ({"memory_gb_s": 2344}, "", "memory at 2344 GB/s, 70% of the peak of 3350; 2345 must be"),
        ({"memory_gb_s": 2346}, "memory at 2346 GB/s, 70% of the peak of 3350; 2613 and more are usual", ""),
        ({**T4, "memory_gb_s": 198}, "", "memory at 198 GB/s, 62% of the peak of 320; 198.4 must be"),
        ({**T4, "memory_gb_s": 200}, "224 and more are usual", ""),
        ({"gemm_tflops": 590.0}, "", "593.4 must be (it ran at 1500 MHz: sw_power_cap)"),
        ({"gemm_tflops": 590.0, "power_limit_mw": 500000}, "its power limit is set to 500 W of 700 W", ""),
        ({"gemm_tflops": 650.0}, "692.3 and more are usual", ""),
        ({"h2d_gb_s": 41.0}, "copies from the host at 41 GB/s, 79% of the peak of 52", ""),
        ({"d2h_gb_s": 6.27}, "a site that records its own rates fails below them", ""),
        ({"d2h_gb_s": 46.7}, "copies to the host at 46.7 GB/s, 90% of the peak of 52", ""),
        ({"h2d_gb_s": 41.0, "near": False}, "could not run on CPUs near the GPU", ""),
        ({"h2d_gb_s": 25.0, "d2h_gb_s": 25.0, "pcie_width": 8}, "", ""),
        ({"h2d_gb_s": 12.0, "d2h_gb_s": 12.0, "pcie_gen": 3}, "", "generation 3 under load, GPU and slot can do 5"),
        # A slot of generation 3 is the machine's own affair.
        ({"h2d_gb_s": 12.0, "d2h_gb_s": 12.0, "pcie_gen": 3, "pcie_gen_max": 3}, "", ""),
        ({"h2d_gb_s": 1.0, "d2h_gb_s": 1.0, "pcie_gen": None}, "", ""),
        ({"name": "NVIDIA X9", "memory_gb_s": 1.0}, "", ""),
    ],
)  # fmt: skip
def test_what_is_slow_fails_or_is_noted(changes: dict[str, Any], notes: str, problems: str) -> None:
    found = judged(**changes)
    said = " ".join(found.evidence.get("notes", ()))
    caused = " ".join(problem.cause for problem in found.problems)
    assert (notes in said, bool(said)) == (True, bool(notes)), said
    assert (problems in caused, bool(caused)) == (True, bool(problems)), caused
    assert all(problem.next_step for problem in found.problems)


OWN = {"NVIDIA H100 80GB HBM3": {"memory_gb_s": 3000, "d2h_gb_s": 6.3}, "NVIDIA X9": {"gemm_tflops": 100}}


@pytest.mark.parametrize(
    ("changes", "notes", "problems"),
    [
        ({"d2h_gb_s": 6.2}, "", ""),
        ({"d2h_gb_s": 5.6}, "", "5.6 GB/s, 89% of the recorded 6.3; 5.67 must be"),
        ({"d2h_gb_s": 6.2, "memory_gb_s": 2800}, "2850 and more are usual", ""),
        ({"d2h_gb_s": 6.2, "gemm_tflops": 500}, "", "of the peak of 989"),
        ({"name": "NVIDIA X9", "gemm_tflops": 89, "memory_gb_s": 1, "pcie_gen": None}, "", "89% of the recorded 100"),
    ],
)  # fmt: skip
def test_what_a_site_has_recorded_takes_the_place_of_the_table(
    changes: dict[str, Any], notes: str, problems: str
) -> None:
    found = judged(OWN, **changes)
    said = " ".join(found.evidence.get("notes", ()))
    caused = " ".join(problem.cause for problem in found.problems)
    assert (notes in said, bool(said)) == (True, bool(notes)), said
    assert (problems in caused, bool(caused)) == (True, bool(problems)), caused


def slow(fake_cluster: Any, **changes: Any) -> None:
    good = fake_cluster.good

    def answer(env: dict[str, str], uuids: list[str]) -> Any:
        said = good(env, uuids)
        for row in said["devices"]:
            row.update(changes)
        return said

    fake_cluster.answers["run_performance.py"] = answer


@pytest.mark.parametrize(
    ("values", "changes", "outcome", "says"),
    [
        ({}, {}, Outcome.SKIPPED, "its GPUs are simulated, so that nothing was measured"),
        (REAL, {}, Outcome.PASSED, ""),
        (REAL, {"memory_gb_s": 1000.0}, Outcome.FAILED, "memory at 1000 GB/s"),
        (REAL, {"name": "NVIDIA X9"}, Outcome.SKIPPED, "X9: neither data/baselines.yml nor"),
        ({**REAL, "validation_performance": False}, {}, Outcome.SKIPPED, "'validation_performance: false'"),
    ],
    ids=["simulated", "healthy", "slow", "no row", "switched off"],
)  # fmt: skip
def test_in_a_run(
    run: Any, fake_cluster: Any, values: dict[str, Any], changes: dict[str, Any], outcome: Outcome, says: str
) -> None:
    slow(fake_cluster, **changes)
    found = run(values=values)[0]["gpu-1"].findings["workloads.performance"]
    assert found.outcome is outcome
    assert says in found.cause
    assert found.skip is (Skip.NOT_APPLICABLE if outcome is Outcome.SKIPPED else None)
    measured = values == REAL
    assert ("n0-performance-x" in fake_cluster.logs) is measured, "a pod is made where something is measured"
    assert bool(found.evidence.get("devices")) is measured, "values are kept, also without a row"


def test_a_note_of_a_passed_check_is_told(run: Any, fake_cluster: Any) -> None:
    slow(fake_cluster, gemm_tflops=650.0)
    found = run(values=REAL)[0]["gpu-1"].findings["workloads.performance"]
    assert found.outcome is Outcome.PASSED
    assert len(found.evidence["notes"]) == 4


# --- among their like ------------------------------------------------------------------------------------------


def alike(*rates: float, own: int = 1) -> Finding:
    """A node with the first GPUs, in a run with all of them."""
    rows = [
        {"uuid": f"GPU-{n}", **H100, "name": "NVIDIA X9", "memory_gb_s": rate} for n, rate in enumerate(rates)
    ]
    found = [
        Finding("workloads.performance", "x", Outcome.SKIPPED, evidence={"devices": part})
        for part in (rows[:own], rows[own:])
    ]
    outcomes = [NodeOutcome({row.check: row}) for row in found]
    host = make_host(gpusmith_simulated=False)
    return uniformity.uniformity(uniformity.OfRun(host, outcomes[0], uniformity.alike(outcomes)))


def test_one_that_is_slower_than_its_like_fails_without_a_row() -> None:
    found = alike(940, 1000, 1000, 1010, 990)
    assert found.outcome is Outcome.FAILED
    assert (
        "GPU-0: memory at 940 GB/s, the median of 5 GPUs like it is 1000; 95% of that must be" in found.cause
    )
    assert found.evidence["medians"]["NVIDIA X9"]["memory_gb_s"] == 1000
    assert alike(960, 1000, 1000, 1010, 990).outcome is Outcome.PASSED


def test_all_slow_alike_and_too_few_prove_nothing_of_each_other() -> None:
    assert alike(500, 500, 500, 500, own=4).outcome is Outcome.PASSED
    with pytest.raises(NotApplicable, match="a median needs 4 GPUs of a model"):
        alike(100, 1000, 1000)
