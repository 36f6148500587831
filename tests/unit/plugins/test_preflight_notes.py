"""What preflight tells of a node that it refuses nothing of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.action import ActionBase
from ansible.template import Templar
from ansible_collections.gpusmith.gpu.plugins.action.preflight import ActionModule

from gpusmith.node.left_out import without
from tests.unit.preflight.test_judge import WANTED, facts
from tests.unit.records import healthy_record


def answered(monkeypatch: pytest.MonkeyPatch, record: dict[str, Any]) -> dict[str, Any]:
    seen = facts()
    del seen["record"]
    monkeypatch.setattr(ActionBase, "run", lambda *_: {})
    action: Any = ActionModule.__new__(ActionModule)
    action._task = SimpleNamespace(args={"record": record})
    # The default of the last one needs a filter of the collection.
    variables = {"inventory_hostname": "gpu-1", **WANTED, "gpusmith_simulated": False}
    action._templar = Templar(DataLoader(), variables=variables)
    action.way_out = lambda _: None
    action._execute_module = lambda **_: {"repositories": {}, **seen}
    found: dict[str, Any] = action.run(task_vars=variables)
    return found


def test_swap_that_a_node_uses_while_it_serves_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    record = healthy_record()
    record["kubernetes"]["joined"] = True
    record["system"]["swap_areas"] = ["/dev/sda2"]
    (note,) = answered(monkeypatch, record)["verdict"]["gpu-1"]["notes"]
    assert note.startswith(
        "swap is on ('/dev/sda2') and stays on. If it has to stay, set 'host_baseline_swap: keep'."
    )


def test_another_driver_that_gives_way_is_told_before_a_machine_joins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of whatever repository it came."""
    record = healthy_record()
    record["kubernetes"]["joined"] = False
    record["packages"] = {
        name: {"version": "535.183.01-0ubuntu0.22.04.1", "held": False}
        for name in ("libnvidia-cfg1-535", "libnvidia-compute-535", "nvidia-driver-535", "nvidia-utils-535")
    }
    record["packages"]["nvidia-container-toolkit"] = {"version": "1.17.8-1", "held": False}
    (note,) = answered(monkeypatch, record)["verdict"]["gpu-1"]["notes"]
    assert note == (
        "driver 535.183.01 is installed ('libnvidia-cfg1-535', 'libnvidia-compute-535', 'nvidia-driver-535', 'nvidia-utils-535')"
        " and gives way to 580.178.04; if somebody else manages it, leave the machine out with -l"
    )
    record["kubernetes"]["joined"] = True
    assert "gives way" not in str(answered(monkeypatch, record).get("verdict"))


def test_packages_that_are_half_there_are_told_at_the_end_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    half = {"nvidia-driver-libs": "there in versions '1' and '2'"}
    record = {**healthy_record(), "package_database": "rpm", "half_packages": half}
    answer = answered(monkeypatch, record)
    (note,) = answer["verdict"]["gpu-1"]["notes"]
    assert note == (
        "package 'nvidia-driver-libs' was there in versions '1' and '2' when the run began: an installation or a removal of it"
        " had been broken off. If the run did not finish it, run 'dnf remove --duplicates' there, then run again"
    )
    assert "nvidia-driver-libs" not in str(answer["refusals"])


def test_gpus_that_are_left_out_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    record = without(healthy_record(), ["0000:18:00.0"])
    (note,) = answered(monkeypatch, dict(record))["verdict"]["gpu-1"]["notes"]
    assert note == "GPU 0000:18:00.0 (10de:2330, driver nvidia) is left out by 'gpusmith_gpus_ignored'"


def test_gpus_that_are_no_row_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    record = healthy_record()
    for gpu in record["pci"]["gpus"]:
        gpu["device_id"] = "10de:2bbf"
    (note,) = answered(monkeypatch, record)["verdict"]["gpu-1"]["notes"]
    assert (
        "(10de:2bbf): no row of data/gpus.yml: no baseline (an inventory can add one, 'gpusmith_gpu_models')"
        in note
    )
