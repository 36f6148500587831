"""What the bus of a simulated machine shows is what the probe looks for."""

from __future__ import annotations

from typing import cast

import pytest
from gpulab.simgpu.hardware import describe
from simgpu import builtin, paths, pci
from simgpu.hardware import Machine

from gpusmith.probe.boot import part_of_kernel
from gpusmith.probe.kernels import FABRIC
from gpusmith.probe.pci import gather


def bus(model: str) -> str:
    machine = cast(Machine, describe(model, 2, "gpu-1"))
    for gpu in machine["gpus"]:
        pci.add_gpu(machine, gpu["pci"])
    for switch in machine["nvswitches"]:
        pci.add_switch(switch["pci"], switch["device_id"])
    for manager in machine["switch_managers"]:
        pci.add_manager(manager["pci"], manager["device_id"])
    return str(paths.PCI / "devices")


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize(
    ("model", "switches", "managers"), [("h100-sxm", 4, 0), ("b200", 0, 4), ("t4", 0, 0)]
)
def test_switches_and_what_manages_them_are_found(model: str, switches: int, managers: int) -> None:
    found = gather(bus(model))
    assert (len(found.gpus), len(found.nvswitches), len(found.switch_managers)) == (2, switches, managers)
    assert {each.device_id for each in found.switch_managers} <= {"15b3:1021"}


def test_the_simulated_kernel_has_what_the_fabric_manager_needs() -> None:
    text = "".join(f"kernel/{path}\n" for path in builtin.INFINIBAND)
    assert all(part_of_kernel(name, text) for name in FABRIC)
