"""Health of GPUs: memory, heat, lanes, processes."""

from __future__ import annotations

import pytest

from gpusmith.checks import health
from gpusmith.checks.findings import CannotAsk, NotApplicable
from tests.faults import UUID, Record
from tests.unit.checks.judged import RECORD_CHECKS, Facts, failing

HEALTH = {
    "nodes.ecc": ("ecc_uncorrected", "ecc_uncorrected"),
    "nodes.row-remap": ("row_remap", "remap_pending"),
    "nodes.throttle": ("throttle_reasons", "throttle_reasons"),
    "nodes.pcie-width": ("pcie_width_max", "pcie_width_max"),
    "nodes.processes": ("processes", "processes"),
}


@pytest.mark.parametrize("check", HEALTH)
def test_value_that_cannot_be_read_fails_with_nvmls_words(check: str, facts: Facts, record: Record) -> None:
    value, key = HEALTH[check]
    record["nvml"]["gpus"][1].update({key: None, "unreadable": {value: "Insufficient Permissions"}})
    found = failing(facts(record))
    assert list(found) == [check]
    assert UUID in found[check]
    assert "Insufficient Permissions" in found[check]


@pytest.mark.parametrize("check", HEALTH)
def test_null_without_a_word_fails(check: str, facts: Facts, record: Record) -> None:
    record["nvml"]["gpus"][1][HEALTH[check][1]] = None
    assert list(failing(facts(record))) == [check]


@pytest.mark.parametrize("check", ["nodes.throttle", "nodes.pcie-width", "nodes.processes"])
def test_value_that_a_gpu_does_not_have_is_no_pass_and_no_failure(
    check: str, facts: Facts, record: Record
) -> None:
    value, key = HEALTH[check]
    record["nvml"]["gpus"][1].update({key: None, "unsupported": [value]})
    with pytest.raises(NotApplicable, match=rf"not applicable.*{UUID}.*other 3"):
        RECORD_CHECKS[check](facts(record))
    assert failing(facts(record)) == {}


def not_supported(record: Record, value: str, *keys: str) -> None:
    for gpu in record["nvml"]["gpus"]:
        gpu.update(dict.fromkeys(keys), unsupported=[value])


def test_row_remapping_came_with_ampere(facts: Facts, record: Record) -> None:
    not_supported(record, "row_remap", "remap_pending", "remap_failed")
    with pytest.raises(NotApplicable, match="row remapping"):
        health.row_remap(facts(record, gpusmith_gpu_model="t4"))
    # An H100 that says so has another trouble.
    assert (
        "Not Supported, but GPUs of model 'h100-sxm' have row remapping"
        in failing(facts(record))["nodes.row-remap"]
    )


def test_a_model_with_ecc_must_tell_its_errors(facts: Facts, record: Record) -> None:
    not_supported(record, "ecc_uncorrected", "ecc_uncorrected")
    assert "have ECC" in failing(facts(record))["nodes.ecc"]


def test_ecc_that_is_switched_off_fails_once_per_gpu(facts: Facts, record: Record) -> None:
    record["nvml"]["gpus"][1].update(
        ecc_mode="disabled", ecc_uncorrected=None, unsupported=["ecc_uncorrected"]
    )
    (problem,) = health.ecc(facts(record))
    assert "ECC is switched off on GPU 1" in problem.cause


def test_ecc_that_may_be_off_is_named_and_no_pass(facts: Facts, record: Record) -> None:
    record["nvml"]["gpus"][1].update(
        ecc_mode="disabled", ecc_uncorrected=None, unsupported=["ecc_uncorrected"]
    )
    with pytest.raises(NotApplicable, match="GPU 1"):
        health.ecc(facts(record, validation_ecc_required=False))
    # It accepts no errors of the others.
    record["nvml"]["gpus"][0]["ecc_uncorrected"] = 3
    (problem,) = health.ecc(facts(record, validation_ecc_required=False))
    assert "3 uncorrectable" in problem.cause


def test_problem_of_one_gpu_outweighs_what_another_does_not_have(facts: Facts, record: Record) -> None:
    record["nvml"]["gpus"][0].update(throttle_reasons=None, unsupported=["throttle_reasons"])
    record["nvml"]["gpus"][1]["throttle_reasons"] = ["hw_slowdown"]
    assert "GPU 1" in failing(facts(record))["nodes.throttle"]


def test_health_of_a_silent_gpu_is_not_passed(facts: Facts, record: Record) -> None:
    record["nvml"]["gpus"][1]["error"] = "GPU is lost"
    for check in HEALTH:
        with pytest.raises(CannotAsk, match=r"GPU 1.*does not answer.*see nodes\.nvml"):
            RECORD_CHECKS[check](facts(record))


def test_process_outside_of_pods_is_named(facts: Facts, record: Record) -> None:
    record["nvml"]["gpus"][1]["processes"] = [
        {"pid": 7, "name": "python3", "pod": False}, {"pid": 8, "name": "train", "pod": True},
    ]  # fmt: skip
    cause = failing(facts(record))["nodes.processes"]
    assert "GPU 1" in cause
    assert "'python3' (PID 7)" in cause
    assert "train" not in cause


def test_power_cap_is_no_slowdown(facts: Facts, record: Record) -> None:
    record["nvml"]["gpus"][0]["throttle_reasons"] = ["sw_power_cap", "applications_clocks_setting"]
    assert failing(facts(record)) == {}
