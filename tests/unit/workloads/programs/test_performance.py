"""The program that measures GPUs; what PyTorch would measure is told by the tests."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workloads.programs.fake_libraries import FakeCuda, FakeNvml


class Nvml(FakeNvml):
    """NVML of GPUs whose links and power are known, but for the default of the latter."""

    def __getattr__(self, name: str) -> Any:
        values = {
            "nvmlDeviceGetCurrPcieLinkGeneration": 5,
            "nvmlDeviceGetMaxPcieLinkGeneration": 5,
            "nvmlDeviceGetCurrPcieLinkWidth": 16,
            "nvmlDeviceGetEnforcedPowerLimit": 700000,
        }
        if name not in values:
            raise AttributeError(name)

        def tell(handle: Any, out: Any) -> int:
            out._obj.value = values[name]
            return 0

        return tell

    def nvmlDeviceGetClockInfo(self, handle: Any, kind: int, out: Any) -> int:  # noqa: N802
        return 999


class Framework:
    """Measures what it is told to."""

    name = "torch"

    def triad(self, ordinal: int) -> list[float]:
        return [1e12, 3e12, 2e12, 5e12, 4e12]

    def product(self, ordinal: int, busy: Callable[[], None]) -> tuple[str, list[float]]:
        busy()
        return "bfloat16", [7e14] * 5

    def copies(self, ordinal: int, busy: Callable[[], None]) -> tuple[list[float], list[float]]:
        busy()
        return [5e10] * 5, [4.56789e10] * 5

    def forget(self) -> None: ...


class Wrong(Framework):
    """One of its GPUs computes wrongly."""

    def __init__(self, error: type[Exception]) -> None:
        self.error = error

    def triad(self, ordinal: int) -> list[float]:
        if ordinal == 1:
            raise self.error("the triad's result is wrong")
        return super().triad(ordinal)


@pytest.fixture
def real(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSMITH_SIMULATED", "false")
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None)


@pytest.mark.usefixtures("real")
def test_each_gpu_has_the_median_of_its_repetitions(load: Any, uuids: list[str]) -> None:
    result = load("run_performance").work(Framework, FakeCuda(simulated=False), Nvml(uuids, lambda *_: 4))
    assert (result["simulated"], result["not_executed"], result["tf32"]) == (False, [], False)
    assert [row["uuid"] for row in result["devices"]] == uuids
    row = result["devices"][1]
    assert (row["memory_gb_s"], row["gemm_tflops"], row["h2d_gb_s"], row["d2h_gb_s"]) == (
        3000,
        700,
        50,
        45.68,
    )
    assert row["repetitions"]["memory_gb_s"] == [1000, 2000, 3000, 4000, 5000]
    assert (row["pcie_gen"], row["pcie_width"], row["power_limit_mw"], row["reasons"]) == (5, 16, 700000, 4)
    assert (row["power_limit_default_mw"], row["sm_clock_mhz"]) == (None, None), "NVML does not tell"
    assert row["memory_clocked_gb_s"] == 3352.3
    assert row["gemm_type"] == "bfloat16"


def test_nothing_is_measured_on_simulated_gpus(load: Any, uuids: list[str]) -> None:
    def never() -> Any:
        raise AssertionError

    result = load("run_performance").work(never, FakeCuda(simulated=True), Nvml(uuids))
    assert result["not_executed"] == ["all measurements"]
    assert [set(row) for row in result["devices"]] == [{"uuid", "name"}] * 2


@pytest.mark.usefixtures("real")
def test_a_gpu_that_computes_wrongly_is_named(load: Any, uuids: list[str]) -> None:
    error = load("gpu_driver").ProgramError
    with pytest.raises(error, match=f"{uuids[1]}: the triad's result is wrong"):
        load("run_performance").work(lambda: Wrong(error), FakeCuda(simulated=False), Nvml(uuids))


def test_a_repetition_is_long_enough_and_begins_when_clocks_are_up(load: Any) -> None:
    now = [0.0]
    queued: list[float] = []

    def wait() -> None:
        # The first time takes longer.
        now[0] += sum(queued) + (5 if now[0] == 0 else 0)
        queued.clear()

    program = load("run_performance")
    found = program.repeated(lambda: queued.append(0.01), 100, wait, lambda: now[0])
    assert found == pytest.approx([10000] * 5)
    assert now[0] == pytest.approx(5 + 0.01 + 0.01 + 6 * 0.3)


@pytest.mark.parametrize(("listed", "cpus"), [("0-3,8\n", {0, 1, 2, 3, 8}), ("", None), (None, None)])
def test_memory_is_near_the_gpu_where_that_is_known(
    load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: str | None, cpus: set[int] | None
) -> None:
    if listed is not None:
        (tmp_path / "0000:0a:00.0").mkdir()
        (tmp_path / "0000:0a:00.0" / "local_cpulist").write_text(listed)
    chosen: list[set[int]] = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, those: chosen.append(those))
    program = load("run_performance")
    address = program.address_of(load("gpu_driver").Cuda(FakeCuda(simulated=False)), 0)
    assert program.go_near(address, str(tmp_path)) is (cpus is not None)
    assert chosen == ([cpus] if cpus else [])
