"""What GPUs do, by the processes that hold them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from simgpu import kthread, modules, paths, usage
from simgpu.faults.throttle import HOT_C
from simgpu.kthread import PERIOD_S, Kthread
from simgpu.state import State

TICKS, PAGES = round(1 / usage.TICK_S), (1 << 20) // usage.PAGE
CUDA = ("/dev/nvidiactl", "/dev/nvidia-uvm")
IDLE = {"util": "0", "used_mib": "0", "processes": "", "power_mw": "69000", "temp": "31"}


def process(pid: int, devices: Sequence[str], cpu_s: float, rss_mib: int = 300) -> None:
    """A process that has devices open."""
    folder = paths.PROCESSES / str(pid)
    (folder / "fd").mkdir(parents=True, exist_ok=True)
    for number, device in enumerate((*devices, "/usr/lib/python3.11/nvidia0")):
        link = folder / "fd" / str(number)
        link.unlink(missing_ok=True)
        link.symlink_to(device)
    words = ["0"] * 40
    words[0], words[11], words[12] = "S", str(round(cpu_s * TICKS)), "0"
    words[21] = str(rss_mib * PAGES)
    (folder / "stat").write_text(f"{pid} (py) thon) {' '.join(words)}\n")


def gpu(minor: str) -> dict[str, str]:
    """A GPU's row in the live state."""
    return next(row for row in State.load().gpus if row["minor"] == minor)


def seen(minor: str) -> dict[str, str]:
    return {key: gpu(minor)[key] for key in IDLE}


@pytest.fixture
def programs(driven: object, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How many programs hold each module."""
    clients = {"nvidia": 0, "nvidia_uvm": 1}
    monkeypatch.setattr(modules, "users", lambda name: clients[name])
    monkeypatch.setattr(usage, "MAX_PROCESSES", 3)
    return clients


@pytest.mark.parametrize(
    ("count", "devices", "cpu_s", "rss_mib", "shown"),
    [
        (1, ("/dev/nvidia1", *CUDA), 2.0, 300, {"util": "40", "used_mib": "300", "processes": "1:300"}),
        (1, ("/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl"), 2.0, 300, IDLE),
        (1, ("/dev/nvidia2", *CUDA), 2.0, 300, IDLE),
        (1, CUDA, 2.0, 300, IDLE),
        (1, ("/dev/nvidia0", "/dev/nvidia1", *CUDA), 5.0, 300, {"util": "100", "used_mib": "300"}),
        (2, ("/dev/nvidia1", *CUDA), 1.0, 300, {"util": "40", "used_mib": "600", "processes": "1:300,2:300"}),
        (2, ("/dev/nvidia1", *CUDA), 4.0, 300, {"util": "100", "power_mw": "700000"}),
        (4, ("/dev/nvidia1", *CUDA), 0.0, 30000, {"util": "0", "used_mib": "81559"}),
    ],
    ids=["one", "a watcher", "another GPU", "no GPU", "two GPUs", "two share", "more than all", "full"],
)
@pytest.mark.usefixtures("programs")
def test_a_gpu_is_as_busy_as_its_holders(
    count: int, devices: Sequence[str], cpu_s: float, rss_mib: int, shown: dict[str, str]
) -> None:
    thread = Kthread()
    for second in (0.0, PERIOD_S):
        for pid in range(1, count + 1):
            process(pid, devices, 7.0 + cpu_s * second / PERIOD_S, rss_mib)
        assert gpu("1")["util"] == "0", "nobody knows yet how busy it is"
        thread.refresh(100.0 + second)
    now = seen("1")
    assert {key: now[key] for key in shown} == shown
    assert now["processes"].count(":") <= 3


def test_power_heat_and_energy_follow(programs: dict[str, int]) -> None:
    state = State.load()
    for row in state.gpus:
        row["energy_at_ms"] = "90000"
    state.save()
    thread = Kthread()
    for second in (0, 5, 10):
        process(1, ("/dev/nvidia1", *CUDA), second / 2)
        thread.refresh(100.0 + second)
    assert seen("1") | {"processes": ""} == {
        "util": "50", "used_mib": "300", "processes": "", "power_mw": "384500", "temp": "51",
    }  # fmt: skip
    # 10 seconds idle, 5 of which nobody knew, 5 at half of its power.
    assert (gpu("1")["energy_mj"], gpu("1")["energy_at_ms"]) == (str(69000 * 15 + 384500 * 5), "110000")
    assert gpu("0")["energy_mj"] == str(69000 * 20)


def test_who_sets_a_power_limit_sees_no_more_than_that(programs: dict[str, int]) -> None:
    state = State.load()
    for row in state.gpus:
        row["limit_mw"] = "300000"
    state.save()
    thread = Kthread()
    for second in (0, 5):
        process(1, ("/dev/nvidia1", *CUDA), second)
        thread.refresh(100.0 + second)
    assert gpu("1")["power_mw"] == "300000"


def test_a_gpu_that_a_fault_made_hot_stays_so(programs: dict[str, int]) -> None:
    state = State.load()
    state.gpus[0].update(throttle="72", temp=HOT_C)
    state.save()
    Kthread().refresh(100.0)
    assert State.load().gpus[0]["temp"] == HOT_C


def test_processes_are_looked_at_while_a_program_can_compute(
    programs: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []
    thread = Kthread()
    meter = usage.Meter.read

    def read(self: usage.Meter, state: State, now: float) -> None:
        looks.append(now)
        meter(self, state, now)

    monkeypatch.setattr(usage.Meter, "read", read)
    process(1, ("/dev/nvidia1", *CUDA), 1.0)
    programs["nvidia_uvm"] = 0
    for now in (10.0, 60.0):
        thread.refresh(now)
    assert (looks, thread.wait_s(woken=False)) == ([], None), "without any it sleeps"
    assert thread.wait_s(woken=True) == kthread.AGAIN_S
    programs["nvidia_uvm"] = 1
    for now in (61.0, 62.0, 65.9, 66.0, 70.0):
        thread.refresh(now)
    assert (looks, thread.wait_s(woken=False)) == ([61.0, 66.0], PERIOD_S)
    assert gpu("1")["processes"] == "1:300"
    (paths.PROCESSES / "1" / "fd" / "0").unlink()
    programs["nvidia_uvm"] = 0
    for now in (70.5, 90.0):
        thread.refresh(now)
    assert (looks, thread.wait_s(woken=False)) == ([61.0, 66.0, 70.5], None)
    assert seen("1") == IDLE


def test_a_process_that_ends_meanwhile_is_none(programs: dict[str, int]) -> None:
    process(1, ("/dev/nvidia1", *CUDA), 1.0)
    (paths.PROCESSES / "1" / "stat").unlink()
    (paths.PROCESSES / "2").mkdir()
    Kthread().refresh(100.0)
    assert seen("1") == IDLE
