from __future__ import annotations

from pathlib import Path

import pytest
from gpulab import delays
from gpulab.delays import Delays
from gpulab.lab import Lab
from gpulab.machines import BOOT_S, Machinery
from gpulab.state import Places, Shape, State, save

from gpusmith.errors import InputError, ToolError


@pytest.fixture
def lab(places: Places, machinery: Machinery) -> Lab:
    """A lab whose GPU machine was just made."""
    save(places, State(Shape(gpu_nodes=1), complete=True))
    lab = Lab(places, machinery)
    machinery.ensure(lab.machine("gpu-1"), "image")
    return lab


def test_what_is_left_out_stays(lab: Lab) -> None:
    assert lab.delay("gpu-1", {"boot": 5.0, "module_load": None}) == Delays(boot=5.0)
    assert lab.delay("gpu-1", {"fabric": 0.0}) == Delays(boot=5.0, fabric=0.0)


def test_showing_changes_nothing(lab: Lab, places: Places) -> None:
    before = (places.hardware("gpu-1") / "delays.json").read_bytes()
    assert lab.delay("gpu-1", {}) == Delays()
    assert (places.hardware("gpu-1") / "delays.json").read_bytes() == before


def test_a_machine_made_anew_is_a_fast_one(lab: Lab, places: Places) -> None:
    lab.delay("gpu-1", {"boot": 5.0})
    machine = lab.machine("gpu-1")
    lab.machinery.remove(machine)
    lab.machinery.ensure(machine, "image")
    assert delays.read(places.hardware("gpu-1")) == Delays()


def test_a_slow_machine_may_take_longer_to_boot(lab: Lab) -> None:
    lab.delay("gpu-1", {"boot": 500.0})
    assert lab.machinery.boot_seconds(lab.machines()) == BOOT_S + 500
    assert lab.machinery.boot_seconds([lab.machine("cp-1")]) == BOOT_S


@pytest.mark.parametrize("seconds", [-1.0, 3601.0, float("nan")])
def test_impossible_delays_are_refused_by_name(lab: Lab, seconds: float) -> None:
    with pytest.raises(InputError, match=r"--module-load .* is no delay"):
        lab.delay("gpu-1", {"module_load": seconds})
    assert lab.delay("gpu-1", {}) == Delays()


def test_machines_without_gpus_have_none(lab: Lab) -> None:
    with pytest.raises(InputError, match="'cp-1' has no GPUs"):
        lab.delay("cp-1", {"boot": 1.0})


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "delays.json").write_text('{"boot": "soon"}')
    with pytest.raises(ToolError, match=r"delays\.json"):
        delays.read(tmp_path)
