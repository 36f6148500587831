"""What the GPUs were and are, by records."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpusmith.node.records import parse
from gpusmith.upgrade import snapshot
from tests.unit import records
from tests.unit.hosts import UUIDS


def before() -> dict[str, Any]:
    # As it comes back from the ledger.
    found: dict[str, Any] = json.loads(json.dumps(snapshot.taken(parse(records.healthy_record()))))
    return found


def causes(record: dict[str, Any]) -> list[str]:
    return [problem.cause for problem in snapshot.differences(before(), parse(record), "gpu-1")]


def test_a_machine_of_sixteen_gpus_is_small_in_its_ledger() -> None:
    record = records.healthy_record()
    gpu = record["nvml"]["gpus"][0]
    record["nvml"]["gpus"] = [{**gpu, "uuid": f"{gpu['uuid'][:-2]}{n:02}"} for n in range(16)]
    assert len(json.dumps(snapshot.taken(parse(record)))) < 4096


def test_nothing_differs_on_the_same_machine() -> None:
    assert causes(records.healthy_record()) == []
    assert snapshot.to_restore(before(), parse(records.healthy_record())) == {}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"vbios": "97"}, "its VBIOS was 96.00.SIM.00.01 and is 97 now"),
        ({"ecc_mode": "disabled"}, "its ECC mode was enabled and is disabled now"),
        ({"mig_mode": "enabled"}, "its MIG mode was disabled and is enabled now"),
        ({"persistence_mode": "disabled"}, "its persistence mode was enabled and is disabled now"),
        ({"persistence_mode": None}, "its persistence mode was enabled and is not known now"),
        ({"pci": "0000:99:00.0"}, "its PCI address was 0000:2a:00.0 and is 0000:99:00.0 now"),
    ],
)
def test_each_value_that_a_driver_changes_is_named(change: dict[str, Any], named: str) -> None:
    record = records.healthy_record()
    record["nvml"]["gpus"][1].update(change)
    assert causes(record) == [f"Node 'gpu-1': GPU {UUIDS[1]}: {named}."]


def test_gpus_that_are_missing_or_new_are_named() -> None:
    record = records.healthy_record()
    record["nvml"]["gpus"][2].update(error="GPU is lost")
    assert causes(record) == [
        "Node 'gpu-1': there were 4 GPUs and now there are 3.",
        f"Node 'gpu-1': GPU {UUIDS[2]} (0000:3a:00.0) is gone.",
    ]
    record = records.healthy_record()
    record["nvml"]["gpus"][2].update(uuid="GPU-other")
    assert causes(record) == [
        f"Node 'gpu-1': GPU {UUIDS[2]} (0000:3a:00.0) is gone.",
        "Node 'gpu-1': GPU GPU-other (0000:3a:00.0) was not there before.",
    ]


def test_a_driver_that_says_nothing_has_lost_all_gpus() -> None:
    record = records.healthy_record()
    record["nvml"].update(init_code=9, gpus=[])
    assert len(causes(record)) == 5


def test_without_a_snapshot_nothing_is_proved() -> None:
    record = parse(records.healthy_record())
    nothings: list[dict[str, Any]] = [{}, {"gpus": {}}]
    for nothing in nothings:
        assert "not known" in snapshot.differences(nothing, record, "gpu-1")[0].cause
        assert snapshot.to_restore(nothing, record) == {}


def test_what_a_gpu_does_not_have_is_not_compared() -> None:
    record = records.healthy_record()
    record["nvml"]["gpus"][0].update(mig_mode=None, unsupported=["mig_mode", "retired_pages"])
    were = snapshot.taken(parse(record))
    assert snapshot.differences(were, parse(record), "gpu-1") == []
    assert snapshot.differences(were, parse(records.healthy_record()), "gpu-1") == []


def test_what_the_driver_forgot_is_put_back_and_a_power_limit_is_no_failure() -> None:
    record = records.healthy_record()
    record["nvml"]["gpus"][1]["power_limit_mw"] = 350500
    record["nvml"]["gpus"][0]["persistence_mode"] = "disabled"
    were = snapshot.taken(parse(record))
    now = records.healthy_record()
    now["nvml"]["gpus"][0]["persistence_mode"] = "disabled"
    now["nvml"]["gpus"][2]["power_limit_mw"] = 700300
    now["nvml"]["gpus"][3]["power_limit_mw"] = None
    assert snapshot.differences(were, parse(now), "gpu-1") == []
    assert snapshot.to_restore(were, parse(now)) == {"power_limits": {UUIDS[1]: 350.5}}
    now["nvml"]["gpus"][0]["persistence_mode"] = "enabled"
    now["nvml"]["gpus"][2]["persistence_mode"] = "disabled"
    assert snapshot.to_restore(were, parse(now))["persistence"] == {UUIDS[0]: False, UUIDS[2]: True}


# --- a rollback ------------------------------------------------------------------------------------------------------


def of_rollback(lost: int) -> dict[str, Any]:
    """What is kept where the driver that is taken back has lost a GPU."""
    record = records.healthy_record()
    record["nvml"]["gpus"][lost].update(error="GPU is lost")
    kept: dict[str, Any] = json.loads(
        json.dumps(snapshot.of_rollback(snapshot.taken(parse(record)), before()))
    )
    return kept


def test_gpus_may_come_back_with_the_settings_from_before_the_driver_that_lost_them() -> None:
    kept, record = of_rollback(2), records.healthy_record()
    assert snapshot.differences(kept, parse(record), "gpu-1") == []
    assert snapshot.to_restore(kept, parse(record)) == {}
    record["nvml"]["gpus"][2].update(power_limit_mw=500000)
    assert snapshot.to_restore(kept, parse(record)) == {"power_limits": {UUIDS[2]: 700.0}}
    # It need not come back: that it does not is no other driver's fault.
    record["nvml"]["gpus"][2].update(error="GPU is lost")
    assert snapshot.differences(kept, parse(record), "gpu-1") == []


def test_a_driver_that_saw_no_gpu_at_all_can_be_taken_back() -> None:
    kept = snapshot.of_rollback({"gpus": {}}, {})
    assert snapshot.differences(kept, parse(records.healthy_record()), "gpu-1") == []
    assert snapshot.differences({"gpus": {}}, parse(records.healthy_record()), "gpu-1") != []


@pytest.mark.parametrize("change", [{"error": "GPU is lost"}, {"uuid": "GPU-another"}])
def test_gpus_that_a_rollback_loses_or_changes_are_named(change: dict[str, Any]) -> None:
    record = records.healthy_record()
    record["nvml"]["gpus"][1].update(change)
    found = [problem.cause for problem in snapshot.differences(of_rollback(2), parse(record), "gpu-1")]
    assert any(f"GPU {UUIDS[1]} (" in cause and "is gone" in cause for cause in found)
