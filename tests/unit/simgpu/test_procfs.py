"""What /proc shows."""

from __future__ import annotations

from simgpu import procfs


def test_mig_minors_are_numbered_as_the_driver_does() -> None:
    lines = procfs.mig_minors().splitlines()
    assert lines[:5] == [
        "config 1",
        "monitor 2",
        "gpu0/gi0/access 3",
        "gpu0/gi0/ci0/access 4",
        "gpu0/gi0/ci1/access 5",
    ]
    assert "gpu0/gi1/access 12" in lines
    assert "gpu1/gi0/access 138" in lines
