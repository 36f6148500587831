"""What the suite judges by names of packages knows those of every family."""

from __future__ import annotations

import pytest

from gpusmith.expect import libraries, packages, services
from gpusmith.expect.wanted import Driver
from gpusmith.node.records import parse
from gpusmith.problems import Cure
from tests.unit.families.test_leftovers import NEW, with_driver


@pytest.mark.parametrize(
    "name", ["libnvidia-compute", "libnvidia-compute-580", "libnvidia-compute-580-server", "libnvidia-ml"]
)
def test_a_library_that_is_gone_is_the_packages_that_brings_it(name: str) -> None:
    record = parse(with_driver([name], NEW))
    _step, cure = libraries.repair(record, Driver(node="gpu-1", version=NEW), libraries.CARRIERS["nvidia-ml"])
    assert cure is Cure.PERSON


def test_without_it_the_packages_are_missing() -> None:
    record = parse(with_driver(["nvidia-firmware-580-server-" + NEW], NEW))
    _step, cure = libraries.repair(record, Driver(node="gpu-1", version=NEW), libraries.CARRIERS["nvidia-ml"])
    assert cure is Cure.PACKAGES


@pytest.mark.parametrize(
    ("name", "judged"),
    [
        ("nvidia-persistenced", True),
        ("nvidia-compute-utils-580-server", True),
        ("nvidia-utils-580-server", False),
    ],
)
def test_the_daemon_is_judged_where_a_package_brings_it(name: str, judged: bool) -> None:
    record = with_driver([name], NEW)
    record["services"] = {}
    assert bool(services.persistence(parse(record), "gpu-1")) is judged


def test_the_suite_tells_firmware_that_was_left_from_a_driver_of_two_versions() -> None:
    left = "nvidia-firmware-580-server-580.126.20"
    record = with_driver(["libnvidia-compute-580-server", f"nvidia-firmware-580-server-{NEW}"], NEW)
    record["packages"][left] = {"version": "580.126.20-0ubuntu0.24.04.2", "held": True}
    wanted = Driver(node="gpu-1", version=NEW)
    assert packages.leftovers(parse(record), wanted) == [left]
    assert packages.outdated(parse(record), wanted) == {}
    record["packages"]["libnvidia-compute-580-server"]["version"] = "580.126.20-0ubuntu0.24.04.2"
    assert packages.leftovers(parse(record), wanted) == []
    assert left in packages.outdated(parse(record), wanted)
