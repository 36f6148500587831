from __future__ import annotations

import pytest
from gpulab.lab import Lab
from gpulab.machines import Machinery
from gpulab.state import Places, Shape, State, save

from gpusmith.errors import InputError


@pytest.mark.parametrize("machine", ["cp-1", "cpu-1"])
def test_machines_without_gpus_have_no_faults(places: Places, machinery: Machinery, machine: str) -> None:
    save(places, State(Shape(cpu_nodes=1), complete=True, cluster_ready=True))
    lab = Lab(places, machinery)
    with pytest.raises(InputError, match=f"Machine '{machine}' has no GPUs"):
        lab.fault(machine, "xid", None, 79)
    with pytest.raises(InputError, match=f"Machine '{machine}' has no GPUs"):
        lab.heal(machine)
