"""Health of GPUs: Xids, memory, heat, lanes, processes."""

from __future__ import annotations

import pytest

from gpusmith.checks import health
from gpusmith.checks.findings import CannotAsk, NotApplicable
from gpusmith.data import xids
from tests.faults import ADDRESS, UUID, Record, xid
from tests.unit.checks.judged import RECORD_CHECKS, Facts, failing

XIDS = (13, 31, 43, 45, 48, 62, 63, 64, 68, 74, 79, 92, 94, 95, 109, 119, 120, 140, 154)


@pytest.mark.parametrize("code", [*XIDS, 1, 999])
def test_no_xid_passes_by_itself(code: int, facts: Facts, record: Record) -> None:
    xid(code)(record)
    assert f"GPU 1 ({UUID}, {ADDRESS}) reported Xid {code} " in failing(facts(record))["nodes.xid"]


@pytest.mark.parametrize(
    ("code", "says", "next_step"),
    [
        (31, "application level", "'validation_accepted_xids'"),
        (48, "GPU memory", "nodes.row-remap"),
        (64, "could not be remapped", "board replaced"),
        (74, "NVLink", "nvlink --status"),
        (79, "fallen off the bus", "reboot it, a reset of the GPU is not enough"),
        (119, "GSP", "nvidia-bug-report.sh"),
        (999, "unknown to data/xid.yml", "NVIDIA's Xid catalog"),
    ],
)
def test_xid_says_what_it_is_and_what_to_do(
    code: int, says: str, next_step: str, facts: Facts, record: Record
) -> None:
    xid(code)(record)
    (problem,) = RECORD_CHECKS["nodes.xid"](facts(record))
    assert says in problem.cause
    assert next_step in problem.next_step
    assert "'gpu-1'" in problem.next_step or code == 999
    assert "{" not in problem.next_step


def test_every_xid_that_is_likely_has_a_meaning() -> None:
    assert all(xids.load().of(code).meaning for code in XIDS)


def test_accepted_xids_stay_in_the_evidence(facts: Facts, record: Record) -> None:
    for code in (31, 31, 13):
        xid(code)(record)
    of = facts(record, validation_accepted_xids=[13, 31])
    assert health.xid(of) == []
    assert [
        (row["code"], row["count"], row["accepted"], UUID in row["gpu"])
        for row in health.xid_evidence(of.record, of.host.accepted_xids)["xids"]
    ] == [(13, 1, True, True), (31, 2, True, True)]


def test_a_pass_says_since_when_and_from_where_the_log_is(facts: Facts, record: Record) -> None:
    record["log"]["begins_unix"] = 50.0
    record["module"]["loaded_unix"] = None
    of = facts(record)
    assert health.xid(of) == []
    evidence = health.xid_evidence(of.record, frozenset())
    assert (evidence["log_has_driver_load"], evidence["log_begins_unix"], evidence["log_source"]) == (
        False,
        50.0,
        "identifier",
    )


def test_a_log_that_any_user_can_write_proves_nothing_about_a_real_node(facts: Facts, record: Record) -> None:
    record["library"]["simulated"] = False
    found = failing(facts(record, gpusmith_simulated=False))
    assert list(found) == ["nodes.xid"]
    assert "any user can write" in found["nodes.xid"]
    record["log"]["source"] = "kernel"
    assert failing(facts(record, gpusmith_simulated=False)) == {}


def test_an_accepted_flood_hides_no_other_xid(facts: Facts, record: Record) -> None:
    xid(31)(record)
    record["xids_truncated"] = True
    assert (
        "only the youngest 1 were read" in failing(facts(record, validation_accepted_xids=[31]))["nodes.xid"]
    )


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


def test_accepted_xid_passes(facts: Facts, record: Record) -> None:
    xid(31)(record)
    assert failing(facts(record, validation_accepted_xids=[31])) == {}


def test_power_cap_is_no_slowdown(facts: Facts, record: Record) -> None:
    record["nvml"]["gpus"][0]["throttle_reasons"] = ["sw_power_cap", "applications_clocks_setting"]
    assert failing(facts(record)) == {}


def test_unreadable_log_is_no_pass(facts: Facts, record: Record) -> None:
    record["xids"] = None
    record["errors"] = ["xids: journalctl ended with status 1"]
    assert "could not be read" in failing(facts(record))["nodes.xid"]
