"""What NVML and nvidia-smi say of GPUs on which a real process holds simulated CUDA."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from gpulab.simgpu import packages
from simgpu import kthread, paths
from simgpu.hardware import Machine
from simgpu.state import State

from tests.integration.simgpu.test_libraries import completed

BUSY = """
import ctypes
assert ctypes.CDLL('libcuda.so.1').cuInit(0) == 0
while True:
    pass
"""
ASK = """
import json, pynvml as n
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(2)
memory, second = n.nvmlDeviceGetMemoryInfo(h), n.nvmlDeviceGetMemoryInfo(h, version=n.nvmlMemory_v2)
assert (second.total, second.used, second.free) == (memory.total, memory.used, memory.total - memory.used)
rates = n.nvmlDeviceGetUtilizationRates(h)
rows = [[[row.pid, row.usedGpuMemory] for row in f(h)] for f in (
    n.nvmlDeviceGetComputeRunningProcesses, n.nvmlDeviceGetComputeRunningProcesses_v2, n.nvmlDeviceGetComputeRunningProcesses_v3)]
print(json.dumps({'util': rates.gpu, 'memory': rates.memory, 'used': memory.used >> 20, 'power': n.nvmlDeviceGetPowerUsage(h),
    'temp': n.nvmlDeviceGetTemperature(h, 0), 'energy': n.nvmlDeviceGetTotalEnergyConsumption(h), 'processes': rows,
    'reasons': n.nvmlDeviceGetCurrentClocksEventReasons(h), 'clock': n.nvmlDeviceGetClockInfo(h, 1)}))
"""


@pytest.fixture
def kernel_thread(node: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The simulated kernel's thread at ten times its speed, as a process; its PID."""
    monkeypatch.setattr(kthread, "PERIOD_S", 0.5)
    monkeypatch.setattr(kthread, "AGAIN_S", 0.1)
    process = get_context("fork").Process(target=kthread.kthread, daemon=True)
    process.start()
    assert process.pid
    yield process.pid
    process.kill()
    process.join()


@contextmanager
def computing(node: Any, uuid: str) -> Iterator[int]:
    """A program that computes on one GPU, and the only one that the kernel's thread sees; its PID."""
    env = node.env({"CUDA_VISIBLE_DEVICES": uuid})
    with subprocess.Popen(node.command(BUSY), env=env) as client:
        (paths.PROCESSES / str(client.pid)).symlink_to(f"/proc/{client.pid}")
        try:
            yield client.pid
        finally:
            client.kill()


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.2)


def wakes(pid: int) -> str:
    """How often a process has gone to sleep."""
    text = Path(f"/proc/{pid}/status").read_text()
    return next(line for line in text.splitlines() if line.startswith("voluntary"))


def test_a_program_that_computes_is_seen_until_it_ends(
    node: Any, machine: Machine, built: packages.Driver, kernel_thread: int
) -> None:
    def smi(*words: str) -> str:
        return subprocess.run(
            [built.part("nvidia-smi"), *words], capture_output=True, text=True, env=node.env(), timeout=30
        ).stdout

    handle = completed(node)
    query = ("--query-gpu=utilization.gpu,memory.used,power.draw", "--format=csv,noheader,nounits")
    idle = node.python(ASK)
    assert (idle["util"], idle["used"], idle["power"], idle["processes"]) == (0, 0, 69000, [[], [], []])
    assert (idle["temp"], idle["reasons"], idle["clock"]) == (31, 1, 345)
    assert "No running processes found" in smi()
    third = sorted(machine["gpus"], key=lambda row: row["pci"])[2]["uuid"]
    with computing(node, third) as pid:
        until(lambda: State.load().gpus[2]["util"] != "0")
        busy = node.python(ASK)
        assert 5 <= busy["util"] == busy["memory"] <= 100
        assert 1 <= busy["used"] <= 500
        assert busy["processes"] == [[[pid, busy["used"] << 20]]] * 3
        assert (busy["power"] > 69000, busy["temp"] > 31) == (True, True)
        assert (busy["reasons"], busy["clock"]) == (0, 1980)
        assert node.python(ASK)["energy"] > busy["energy"] > idle["energy"] > 0
        assert re.search(rf" 2 +N/A +N/A +{pid} +C +python\S* +[1-9]\d*MiB", smi()), smi()
        assert re.search(r" [1-9]\d* % +Default", smi()), smi()
        rows = smi(*query).splitlines()
        assert re.fullmatch(r"[1-9]\d*, [1-9]\d*, \d{2,3}\.\d\d", rows[2])
        assert rows[0] == "0, 0, 69.00"
    until(lambda: State.load().gpus[2]["used_mib"] == "0")
    assert {**node.python(ASK), "energy": 0} == {**idle, "energy": 0}
    time.sleep(0.5)
    before = wakes(kernel_thread)
    time.sleep(1.2)
    assert wakes(kernel_thread) == before, "without such a program it sleeps"
    os.close(handle)


def test_who_is_in_another_pid_namespace_is_told_no_processes(node: Any) -> None:
    """As containers are: numbers there mean other processes."""
    state = State.load()
    state.values["pid_namespace"] = "1"
    state.gpus[2]["processes"] = "1:300"
    state.save()
    assert node.python(ASK)["processes"] == [[], [], []]


@pytest.mark.parametrize(("count", "listed"), [(0, 0), (1, 1), (40, 32)])
def test_as_many_processes_as_the_live_state_has(node: Any, count: int, listed: int) -> None:
    state = State.load()
    state.values["pid_namespace"] = str(Path("/proc/self/ns/pid").stat().st_ino)
    state.gpus[2]["processes"] = ",".join(f"{pid}:{pid}" for pid in range(1, count + 1))
    state.save()
    processes = node.python(ASK)["processes"][2]
    assert processes == [[pid, pid << 20] for pid in range(1, listed + 1)]
