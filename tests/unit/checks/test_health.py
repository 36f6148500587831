"""Health of GPUs: memory, heat, lanes, processes."""

from __future__ import annotations

import pytest

from gpusmith.checks import health
from gpusmith.checks.evidence import desktops_evidence
from gpusmith.checks.findings import CannotAsk, NotApplicable
from tests.faults.fault import UUID, Record
from tests.unit.checks.judged import RECORD_CHECKS, Facts, failing

HEALTH = {
    "nodes.ecc": ("ecc_uncorrected", "ecc_uncorrected"),
    "nodes.row-remap": ("row_remap", "remap_pending"),
    "nodes.throttle": ("throttle_reasons", "throttle_reasons"),
    "nodes.pcie-width": ("pcie_width_max", "pcie_width_max"),
    "nodes.nvlinks": ("nvlinks", "nvlinks"),
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


def turing(record: Record, **changes: object) -> None:
    """GPUs that retire pages, as those before Ampere; the changes are those of GPU 1."""
    for device in record["pci"]["gpus"]:
        device["device_id"] = "10de:1e30"  # no row
    for gpu in record["nvml"]["gpus"]:
        gpu.update(remap_pending=None, remap_failed=None, retired_pages=0, retirement_pending=False)
        gpu["unsupported"] = ["row_remap"]
    record["nvml"]["gpus"][1].update(changes)


def test_row_remapping_came_with_ampere(facts: Facts, record: Record) -> None:
    not_supported(record, "row_remap", "remap_pending", "remap_failed")
    # An H100 that says so has another trouble.
    assert (
        "Not Supported, but GPUs of model 'h100-sxm' have row remapping"
        in failing(facts(record))["nodes.row-remap"]
    )


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"retirement_pending": True}, "waits to be retired"),
        ({"retired_pages": 63}, "retired 63 pages of bad memory, as many as it can"),
        ({"retired_pages": None, "unreadable": {"retired_pages": "Unknown Error"}}, "Unknown Error"),
        ({"unsupported": ["row_remap", "retired_pages"]}, "have page retirement"),
    ],
)
@pytest.mark.parametrize("model", ["t4", "x100"])
def test_before_ampere_pages_are_retired(
    model: str, changes: dict[str, object], says: str, facts: Facts, record: Record
) -> None:
    turing(record)
    assert health.row_remap(facts(record, gpusmith_gpu_model=model)) == []
    turing(record, **changes)
    if model == "x100" and "unsupported" in changes:
        # Nobody knows what such a GPU can do.
        with pytest.raises(NotApplicable):
            health.row_remap(facts(record, gpusmith_gpu_model=model))
        return
    (problem,) = health.row_remap(facts(record, gpusmith_gpu_model=model))
    assert "GPU 1" in problem.cause
    assert says in problem.cause


def test_some_retired_pages_are_no_fault(facts: Facts, record: Record) -> None:
    turing(record, retired_pages=62)
    assert health.row_remap(facts(record, gpusmith_gpu_model="t4")) == []


def test_without_ecc_there_is_no_list_of_retired_pages(facts: Facts, record: Record) -> None:
    turing(record, ecc_mode="disabled", retired_pages=None, unsupported=["row_remap", "retired_pages"])
    with pytest.raises(NotApplicable, match="retired memory pages on GPU 1"):
        health.row_remap(facts(record, gpusmith_gpu_model="t4"))


def lanes(facts: Facts, record: Record, now: int, slot: int, **variables: object) -> str:
    record["nvml"]["gpus"][1].update(pcie_width=now, pcie_width_max=slot)
    return " ".join(
        f"{problem.cause} {problem.next_step}" for problem in health.pcie_width(facts(record, **variables))
    )


def test_lanes_that_a_slot_lost_are_missing_too(facts: Facts, record: Record) -> None:
    said = lanes(facts, record, 8, 8)
    assert "GPU 1" in said
    assert "runs on 8 PCIe lanes, model 'h100-sxm' has 16; more than 8 its slot does not offer." in said
    assert "'validation_pcie_width'" in said
    assert "slot" not in lanes(facts, record, 8, 16)


def test_an_inventory_may_have_narrower_slots(facts: Facts, record: Record) -> None:
    assert lanes(facts, record, 8, 8, validation_pcie_width=8) == ""
    assert lanes(facts, record, 8, 16, validation_pcie_width=8) == ""
    assert "runs on 4 PCIe lanes, 8 are wanted ('validation_pcie_width')" in lanes(
        facts, record, 4, 8, validation_pcie_width=8
    )


def test_lanes_of_a_gpu_that_is_no_row_prove_nothing(facts: Facts, record: Record) -> None:
    for gpu in record["pci"]["gpus"]:
        gpu["device_id"] = "10de:2bb6"
    with pytest.raises(NotApplicable, match="no baseline"):
        lanes(facts, record, 8, 8, gpusmith_gpu_model=None)
    assert "it can use 16" in lanes(facts, record, 8, 16, gpusmith_gpu_model=None)
    assert lanes(facts, record, 8, 8, gpusmith_gpu_model=None, validation_pcie_width=8) == ""


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


HOLDER = {
    "pid": 40,
    "user": "ann",
    "command": "python3",
    "devices": ["/dev/nvidia0", "/dev/nvidiactl"],
    "started_unix": 1.7e9,
}


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, "GPU 1 is open outside of Kubernetes, since 2023-11-14 22:13 UTC: process 40 'python3' (user 'ann', no unit)"),
        ({"unit": "session-3.scope"}, "(user 'ann', unit 'session-3.scope') with /dev/nvidia0, /dev/nvidiactl"),
        ({"container": "ab" * 32}, "container abababababab"),
        ({"devices": ["/host/dev/nvidia3", "/dev/nvidia0"]}, "GPU 1, 2 is open"),
        ({"devices": ["/dev/nvidia0 (deleted)"]}, "GPU 1 is open"),
        ({"devices": ["/dev/nvidiactl", "/dev/nvidia-uvm"]}, ""),
        ({"pod_uid": "1b4e28ba-2fa1-11d2-883f-0016d3cca427"}, ""),
        ({"command": "nvidia-persiste"}, ""),
        ({"command": "nv-hostengine"}, ""),
        ({"command": "nvidia-smi"}, ""),
        ({"command": "Xorg"}, ""),
        ({"unit": "zabbix-agent2.service"}, ""),
    ],
)  # fmt: skip
def test_process_that_has_a_gpu_open_outside_of_pods_is_named(
    facts: Facts, record: Record, changes: dict[str, object], found: str
) -> None:
    record["holders"] = [{**HOLDER, **changes}]
    said = failing(facts(record, gpu_upgrade_stop_units=["zabbix-agent2"])).get("nodes.processes", "")
    assert found in said
    assert bool(said) is bool(found)


def test_a_process_that_computes_is_named_once(facts: Facts, record: Record) -> None:
    record["holders"] = [HOLDER]
    record["nvml"]["gpus"][1]["processes"] = [{"pid": 40, "name": "python3", "pod": False}]
    assert failing(facts(record))["nodes.processes"].count("python3") == 1


def test_a_desktop_is_noted(facts: Facts, record: Record) -> None:
    record["holders"] = [{**HOLDER, "command": "Xorg", "unit": "gdm.service"}]
    (note,) = desktops_evidence(facts(record))["notes"]
    assert "process 40 'Xorg' (user 'ann', unit 'gdm.service')" in note


def test_who_has_a_gpu_open_has_to_be_known(facts: Facts, record: Record) -> None:
    record.update(holders=None, errors=["who has a GPU open: no answer within 15 s"])
    with pytest.raises(CannotAsk, match="is not known: who has a GPU open: no answer within 15 s"):
        health.processes(facts(record))


def test_power_cap_is_no_slowdown(facts: Facts, record: Record) -> None:
    record["nvml"]["gpus"][0]["throttle_reasons"] = ["sw_power_cap", "applications_clocks_setting"]
    assert failing(facts(record)) == {}
