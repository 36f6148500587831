"""The live state's file."""

from __future__ import annotations

from simgpu import driver, paths
from simgpu import state as live
from simgpu.hardware import Machine
from simgpu.state import State


def test_state_survives_a_round_trip(machine: Machine) -> None:
    state = State.load()
    state.gpus = driver.probe_gpus(machine)
    state.xid(state.gpus[0], 63)
    state.save()
    again = State.load()
    assert (again.values, again.gpus, again.xids) == (state.values, state.gpus, state.xids)


def test_saving_keeps_the_inode(machine: Machine) -> None:
    before = paths.LIVE.stat().st_ino
    State.load().save()
    assert paths.LIVE.stat().st_ino == before
    assert paths.LIVE.stat().st_size == live.SIZE
