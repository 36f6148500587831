"""Drivers that are broken in one way each, on nodes with the packages of Ubuntu and of Rocky: each node goes back, and serves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.harness import Lab
from tests.e2e.upgrades import BROKEN, OLD, offering_broken_drivers, upgrade_words

UBUNTU, ROCKY = "gpu-1", "gpu-2"
SYSTEMS = {UBUNTU: "ubuntu-24.04", ROCKY: "rocky-9"}
SAID = {"module": "Unknown symbol", "cuda": "802", "uuids": "is gone"}
OF_DRIVER = {
    UBUNTU: "dpkg-query -W -f '${Version} ${Package} ${db:Status-Abbrev}\n' '*nvidia*' | sed -n 's/ [hi]i *$//p' | sort",
    ROCKY: "rpm -qa --qf '%{VERSION} %{NAME}\n' '*nvidia*' | sort",
}
HELD = {UBUNTU: "apt-mark showhold | sort", ROCKY: "sort /etc/dnf/plugins/versionlock.list"}


@dataclass(frozen=True)
class Site:
    """A node of each system that serves, and an inventory that offers broken drivers."""

    lab: Lab
    inventory: Path


@pytest.fixture(scope="module")
def site(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    lab = Lab(root, root / ".cache" / "long" / str(int(time.time())))
    lab.gpulab("down")
    lab.up("--gpus", "1", "--os", ",".join(f"{node}={system}" for node, system in SYSTEMS.items()))
    lab.site_ok()
    lab.wait_allocatable(dict.fromkeys(SYSTEMS, 1), 60)
    yield Site(lab, offering_broken_drivers(lab, tmp_path_factory.mktemp("inventory")))
    lab.gpulab("down")


@pytest.mark.parametrize("kind", SAID)
@pytest.mark.parametrize("node", SYSTEMS)
def test_a_broken_driver_goes_back(
    site: Site, node: str, kind: str, measured: Callable[[str, object], None]
) -> None:
    lab = site.lab
    before = {words: lab.on(node, words) for words in (OF_DRIVER[node], HELD[node])}
    ended = lab.playbook(*upgrade_words(node, BROKEN[kind]), inventory=site.inventory)
    assert ended.status != 0, str(ended)
    (row,) = [line for line in ended.output.splitlines() if line.split()[:3] == [node, "rolled", "back"]]
    assert SAID[kind] in row, row
    assert lab.on(node, "cat /sys/module/nvidia/version") == OLD
    assert {words: lab.on(node, words) for words in before} == before
    lab.wait_allocatable(dict.fromkeys(SYSTEMS, 1), 60)
    measured("back", f"{OLD} after {BROKEN[kind]}: {ended.seconds:.0f} s")


def test_both_nodes_are_what_they_were(site: Site) -> None:
    second = site.lab.site_ok()
    assert {host: row["changed"] for host, row in second.recap().items() if row["changed"]} == {}, str(second)
    site.lab.validate().assert_passed()
