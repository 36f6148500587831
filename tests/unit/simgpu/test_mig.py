"""MIG on the side of the simulated kernel: modes, and where instances go."""

from __future__ import annotations

import errno
import json
import os
from typing import cast

import pytest
from gpulab.simgpu.hardware import MIG_IDS, describe, models
from simgpu import cli, driver, hardware, paths, pci
from simgpu.hardware import Machine
from simgpu.publish import publish
from simgpu.state import State

from gpusmith.data import mig
from tests.unit.simgpu.test_usage import process

A100, H100, A30, RTX = "a100-sxm-40", "h100-sxm", "a30", "rtx-pro-6000"
CAPABILITIES = "nvidia/capabilities"


class Gpu:
    """The first GPU of a machine, and its driver."""

    def __init__(self, model: str) -> None:
        self.machine = cast(Machine, describe(model, 2, "gpu-1"))
        paths.HARDWARE.write_text(json.dumps(self.machine))
        for gpu in self.machine["gpus"]:
            pci.add_gpu(self.machine, gpu["pci"])
        for switch in self.machine["nvswitches"]:
            pci.add_switch(switch["pci"], switch["device_id"])
        driver.fresh_state(self.machine).save()
        self.load()

    def load(self) -> None:
        """Load the driver, in place of one that is loaded. A reboot does no less."""
        if "nvidia" in State.load().modules:
            driver.unload("nvidia", force=True)
        state = State.load()
        driver.reset_values(state, self.machine)
        state.gpus = driver.probe_gpus(self.machine)
        state.modules = ["nvidia"]
        state.values["version"] = "580.178.04"
        state.save()
        publish(state)
        self.row = state.gpus[0]

    def do(self, *words: str | int) -> int:
        return cli.main(["mig", self.row["pci"], *map(str, words)])

    def ids(self, *profiles: int) -> list[int]:
        """IDs of the instances that are made, in this order."""
        assert self.do("mode", 1) == 0
        for profile in profiles:
            assert self.do("create", profile) == 0
        return [int(row["gi"]) for row in State.load().instances]

    def mode(self) -> str:
        row = State.load().gpus[0]
        return row["mig"] + row["mig_pending"]

    def capabilities(self) -> dict[str, str]:
        """Those of instances, with their minors."""
        base = paths.PROC / CAPABILITIES
        return {
            str(path.parent.relative_to(base)): path.read_text().split()[1]
            for path in sorted(base.glob("gpu*/mig/**/access"))
        }


@pytest.fixture
def gpu(request: pytest.FixtureRequest, kernel: None) -> Gpu:
    return Gpu(getattr(request, "param", H100))


@pytest.mark.parametrize(
    ("gpu", "kept"), [(A100, "11"), (A30, "11"), (H100, "00"), (RTX, "00")], indirect=["gpu"]
)
def test_ampere_keeps_its_mode_and_nothing_keeps_instances(gpu: Gpu, kept: str) -> None:
    assert gpu.mode() == "00"
    gpu.ids(14)
    assert gpu.mode() == "11"
    gpu.load()
    assert (gpu.mode(), State.load().instances, gpu.capabilities()) == (kept, [], {})
    assert gpu.do("mode", 0) == 0
    gpu.load()
    assert gpu.mode() == "00"


@pytest.mark.parametrize(("gpu", "pending"), [(A100, "01"), (H100, "00")], indirect=["gpu"])
def test_a_gpu_in_use_keeps_its_mode(gpu: Gpu, pending: str) -> None:
    process(1, [f"/dev/nvidia{gpu.row['minor']}"], 0)
    assert gpu.do("mode", 1) == errno.EBUSY
    assert gpu.mode() == pending
    (paths.PROCESSES / "1" / "comm").write_text("nvidia-persiste\n")
    assert gpu.do("mode", 1) == 0
    gpu.do("create", 0)
    assert gpu.do("mode", 0) == errno.EBUSY, "it has an instance"
    assert gpu.do("mode", 1) == 0, "it is in it"


def test_who_asks_and_who_has_another_gpu_are_no_users(gpu: Gpu) -> None:
    process(os.getppid(), [f"/dev/nvidia{gpu.row['minor']}"], 0)
    process(1, ["/dev/nvidiactl", "/dev/nvidia7"], 0)
    assert gpu.do("mode", 1) == 0


# From the section "Instance Geometry" of NVIDIA's MIG user guide, and a listing of an RTX PRO 6000.
@pytest.mark.parametrize(
    ("gpu", "profiles", "ids"),
    [
        (A100, (9, 9), [2, 1]),
        (A100, (19, 14, 5), [13, 5, 1]),
        (A100, (9, 19, 14, 19), [2, 7, 4, 8]),
        (A100, (14, 19, 19, 19, 19, 19), [5, 13, 7, 8, 9, 10]),
        (A100, (19, 19, 14), [13, 11, 3]),
        (RTX, (14, 14, 14, 14), [3, 4, 5, 6]),
        (RTX, (5, 14, 14), [1, 5, 6]),
        (A30, (0,), [0]),
        (H100, (15, 15, 15, 15), [6, 5, 3, 4]),
    ],
    indirect=["gpu"],
)
def test_instances_are_where_the_driver_puts_them(
    gpu: Gpu, profiles: tuple[int, ...], ids: list[int]
) -> None:
    assert gpu.ids(*profiles) == ids


def test_what_does_not_fit_is_refused(gpu: Gpu) -> None:
    assert gpu.do("create", 9) == errno.EOPNOTSUPP, "the mode is off"
    gpu.ids(19, 19, 14)
    assert gpu.do("create", 9) == errno.ENOSPC
    assert gpu.do("create", 99) == errno.EINVAL
    assert gpu.do("create", 9, 2) == errno.EINVAL
    assert gpu.do("create", 19, 6) == errno.ENOSPC
    assert gpu.do("create", 20, 5) == 0
    assert gpu.do("create", 20, 3) == errno.ENOSPC, "the media engines are there once"
    assert [row["start"] for row in State.load().instances] == ["6", "4", "0", "5"]


@pytest.mark.parametrize("key", mig.load())
def test_every_profile_can_be_made_as_often_as_its_table_says(key: str, kernel: None) -> None:
    gpu = Gpu(
        next(model for model, row in models().items() if row["mig_table"] == key and not row["refused"])
    )
    profiles = State.load().profiles
    assert {row["id"]: int(row["most"]) for row in profiles} == {
        str(MIG_IDS[key][profile.nvml]): profile.most for profile in mig.load()[key].profiles
    }
    for row in profiles:
        gpu.load()
        assert len(gpu.ids(*[int(row["id"])] * int(row["most"]))) == int(row["most"]), row
        assert gpu.do("create", row["id"]) == errno.ENOSPC, row
        assert len({instance["uuid"] for instance in State.load().instances}) == int(row["most"])


@pytest.mark.parametrize("gpu", [A30], indirect=True)
def test_media_engines_are_there_once_whatever_takes_them(gpu: Gpu) -> None:
    gpu.ids(21)
    assert gpu.do("create", 6) == errno.ENOSPC
    assert gpu.do("create", 5) == 0


def test_an_instance_is_known_again_where_it_was(gpu: Gpu) -> None:
    gpu.ids(9, 9)
    before = {row["start"]: row["uuid"] for row in State.load().instances}
    assert all(uuid.startswith("MIG-") for uuid in before.values())
    gpu.load()
    gpu.ids(19, 9)
    after = {row["start"]: row["uuid"] for row in State.load().instances}
    assert after["0"] == before["0"]
    assert after["6"] not in before.values()


def test_capabilities_come_and_go_with_their_instances(gpu: Gpu) -> None:
    minor = int(gpu.row["minor"])
    first = 3 + minor * 135
    gpu.ids(9)
    assert gpu.capabilities() == {f"gpu{minor}/mig/gi2": str(first + 18)}
    assert gpu.do("create-compute", 2) == 0
    assert gpu.do("create-compute", 2) == errno.ENOSPC
    assert gpu.do("create-compute", 1) == errno.ENOENT
    assert gpu.capabilities() == {
        f"gpu{minor}/mig/gi2": str(first + 18),
        f"gpu{minor}/mig/gi2/ci0": str(first + 19),
    }
    names = dict(
        line.split() for line in (paths.PROC / "nvidia-caps" / "mig-minors").read_text().splitlines()
    )
    assert names[f"gpu{minor}/gi2/ci0/access"] == str(first + 19)
    assert gpu.do("destroy", 2) == errno.EBUSY, "its compute instance is there"
    process(1, [f"/dev/nvidia-caps/nvidia-cap{first + 19}"], 0)
    assert gpu.do("destroy-compute", 2) == errno.EBUSY, "a program computes on it"
    process(1, [f"/dev/nvidia-caps/nvidia-cap{first + 10}"], 0)
    assert gpu.do("destroy-compute", 2) == 0
    assert gpu.do("destroy-compute", 2) == errno.ENOENT
    assert gpu.do("destroy", 2) == 0
    assert gpu.do("destroy", 2) == errno.ENOENT
    assert (gpu.capabilities(), State.load().instances) == ({}, [])


def test_no_other_capability_has_an_instances_minor(gpu: Gpu) -> None:
    base = paths.PROC / "nvidia-caps"
    taken = [
        line.split()[1]
        for name in ("mig-minors", "sys-minors")
        for line in (base / name).read_text().splitlines()
    ]
    assert len(taken) == len(set(taken))


@pytest.mark.parametrize("gpu", ["t4"], indirect=True)
def test_a_model_without_mig_refuses(gpu: Gpu) -> None:
    assert gpu.do("mode", 1) == errno.EOPNOTSUPP
    assert State.load().profiles == []
    assert hardware.inforom() == []


@pytest.mark.parametrize("gpu", [A100], indirect=True)
def test_a_reset_brings_the_mode_that_waits_for_it(gpu: Gpu) -> None:
    process(1, [f"/dev/nvidia{gpu.row['minor']}"], 0)
    assert (gpu.do("mode", 1), gpu.do("reset")) == (errno.EBUSY, errno.EBUSY)
    process(1, [], 0)
    assert gpu.do("reset") == 0
    assert gpu.mode() == "11"
    assert gpu.do("create", 9) == 0
    assert gpu.do("reset") == 0
    assert State.load().instances == []
