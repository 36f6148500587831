from __future__ import annotations

import pytest
from gpulab.lab import Lab
from gpulab.machines import Machinery
from gpulab.state import Places, Shape, State, save

from gpusmith.errors import InputError, ToolError
from tests.unit.lab.conftest import FakePodman


@pytest.mark.parametrize("machine", ["cp-1", "cpu-1"])
def test_machines_without_gpus_have_no_faults(places: Places, machinery: Machinery, machine: str) -> None:
    save(places, State(Shape(cpu_nodes=1), complete=True, cluster_ready=True))
    lab = Lab(places, machinery)
    with pytest.raises(InputError, match=f"Machine '{machine}' has no GPUs"):
        lab.fault(machine, "xid", None, 79)
    with pytest.raises(InputError, match=f"Machine '{machine}' has no GPUs"):
        lab.heal(machine)


@pytest.mark.parametrize(("action", "status"), [("stop", "exited"), ("start", "running")])
def test_the_depot_stops_and_starts(
    places: Places, machinery: Machinery, podman: FakePodman, action: str, status: str
) -> None:
    save(places, State(Shape(), complete=True, cluster_ready=True))
    podman.containers["gpulab-depot"] = {"Id": "id", "State": {"Status": "running", "Pid": 0}}
    lab = Lab(places, machinery)
    for _ in range(2):
        lab.depot(action)
        assert podman.containers["gpulab-depot"]["State"]["Status"] == status
    asked = [call for call in podman.calls if call[0] == "exec"]
    assert bool(asked) is (action == "start"), "it is back when it serves again"


def test_no_depot_without_a_lab(places: Places, machinery: Machinery) -> None:
    with pytest.raises(ToolError, match="No lab is up"):
        Lab(places, machinery).depot("stop")
