"""NVML's sizes of instances. What it tells of a GPU's is read in tests/integration/partition."""

from __future__ import annotations

import pynvml

from gpusmith.data import mig
from gpusmith.probe.instances import PROFILES


def test_sizes_are_called_and_numbered_as_in_nvml() -> None:
    begin = "NVML_GPU_INSTANCE_PROFILE_"
    numbers = {
        name.removeprefix(begin): number for name, number in vars(pynvml).items() if name.startswith(begin)
    }
    count = numbers.pop("COUNT")
    assert len(PROFILES) == count
    assert {name: PROFILES.index(name) for name in PROFILES} == numbers


def test_all_sizes_of_the_table_are_among_them() -> None:
    assert {profile.nvml for gpu in mig.load().values() for profile in gpu.profiles} <= set(PROFILES)
