"""Nodes with NVLink 5 (simulated B200), by family: reboot, upgrade and back, a driver that does not work, removal.

nvlsm and ibstat are scripts that do nothing, and the kernel of these machines has the modules built in (docs/lab.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.harness import Ended, Lab
from tests.e2e.upgrades import (
    BROKEN,
    NEW,
    OLD,
    ROLLBACK_PLAYBOOK,
    SHORT,
    offering_broken_drivers,
    upgrade_words,
)

NODES = ("gpu-1", "gpu-2")
FLEETS = {
    "debian-12": dict.fromkeys(NODES, "debian-12"),
    "ubuntu-24.04 and rocky-9": dict(zip(NODES, ("ubuntu-24.04", "rocky-9"), strict=True)),
}
GPUS = dict.fromkeys(NODES, 2)
BOTH_AT_ONCE = ("-e", "gpu_upgrade_canary=2", "-e", "gpu_upgrade_max_unavailable=2")
LOADS = "/etc/modules-load.d/gpusmith-nvlink.conf"
DRIVER = "cat /sys/module/nvidia/version"


@dataclass(frozen=True)
class Words:
    """What a package manager is asked."""

    versions: str
    holds: str
    left: str


APT = Words(
    versions="dpkg-query -W -f '${Version} ${Package} ${db:Status-Abbrev}\\n' nvlsm infiniband-diags",
    holds="apt-mark showhold | sort",
    left="dpkg-query -W -f '${Package} ${db:Status-Abbrev}\\n' | grep -E '(nvidia|nvlsm).* [hi]i'",
)
DNF = Words(
    versions="rpm -q --qf '%{VERSION}-%{RELEASE} %{NAME}\\n' nvlsm infiniband-diags",
    holds="sort /etc/dnf/plugins/versionlock.list",
    left="rpm -qa '*nvidia*' nvlsm",
)


@dataclass(frozen=True)
class Site:
    """Two nodes, and an inventory that offers broken drivers, too."""

    lab: Lab
    inventory: Path
    systems: Mapping[str, str]

    def play(self, *words: str) -> Ended:
        """A playbook that must succeed, on the lab's own inventory: in the other one, dnf has broken drivers alone."""
        ended = self.lab.playbook(*words)
        assert ended.status == 0, str(ended)
        return ended

    def words(self, node: str) -> Words:
        """How the packages of a node are asked for."""
        return DNF if self.systems[node].startswith("rocky") else APT

    def fabric(self) -> dict[str, tuple[str, ...]]:
        """What nodes have of what manages the switches, all that is held, and the modules that boots load."""
        return {
            node: tuple(
                self.lab.on(node, words)
                for words in (self.words(node).versions, self.words(node).holds, f"cat {LOADS}")
            )
            for node in NODES
        }

    def left(self, node: str) -> str:
        """What a machine still has of the driver, and of what manages the switches."""
        words = self.words(node)
        of_driver = [
            f"({each} | grep -E 'nvidia|nvlsm' | grep -v container)" for each in (words.left, words.holds)
        ]
        asked = [*of_driver, f"find {LOADS} /opt/nvidia/nvlsm -type f", DRIVER]
        return self.lab.on(node, "; ".join(f"{each} 2>/dev/null || true" for each in asked))

    def drivers(self) -> dict[str, str]:
        """The loaded driver's version by node."""
        return {node: self.lab.on(node, DRIVER) for node in NODES}

    def works(self, version: str) -> None:
        """The driver is that one, nvlsm is held as it was, and the suite is content."""
        assert self.drivers() == dict.fromkeys(NODES, version)
        for versions, holds, loads in self.fabric().values():
            assert "2025.06.11-1" in versions, versions
            assert "nvlsm" in holds, holds
            assert "ib_umad" in loads, loads
        self.lab.wait_allocatable(GPUS, 120)
        self.lab.validate().assert_passed()


@pytest.fixture(scope="module", params=FLEETS)
def site(
    root: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Site]:
    systems = FLEETS[request.param]
    lab = Lab(root, root / ".cache" / "long" / str(int(time.time())))
    lab.gpulab("down")
    option = ",".join(f"{node}={system}" for node, system in systems.items())
    lab.up("--model", "b200", "--gpus", "2", "--os", option)
    lab.site_ok()
    yield Site(lab, offering_broken_drivers(lab, tmp_path_factory.mktemp("inventory")), systems)
    lab.gpulab("down")


def test_a_second_run_does_nothing(site: Site) -> None:
    site.works(OLD)
    second = site.lab.site_ok()
    assert {host: row["changed"] for host, row in second.recap().items() if row["changed"]} == {}, str(second)


def test_a_reboot_brings_the_fabric_back(site: Site) -> None:
    before = site.lab.boots()
    site.lab.gpulab("reboot", "--all")
    site.lab.wait_allocatable(GPUS, 180, rebooted_since=before)
    site.lab.validate_nodes().assert_passed()
    # It ends while the API server does not answer, which was rebooted as well, and kubelet's back-off is up to 5 minutes.
    worker = ("--namespace=gpusmith-system", "daemonset/nfd-worker")
    site.lab.kubectl("rollout", "status", *worker, "--timeout=330s", timeout=340)


def test_a_driver_that_does_not_work_goes_back(site: Site) -> None:
    before = site.fabric()
    ended = site.lab.playbook(*upgrade_words("gpu_nodes", BROKEN["cuda"]), inventory=site.inventory)
    assert ended.status != 0, str(ended)
    assert any(line.split()[1:3] == ["rolled", "back"] for line in ended.output.splitlines()), str(ended)
    assert site.fabric() == before
    site.works(OLD)


def test_another_driver_and_back(site: Site, measured: Callable[[str, object], None]) -> None:
    before = site.fabric()
    forth = site.play(*upgrade_words("gpu_nodes", NEW, *BOTH_AT_ONCE))
    site.lab.wait_allocatable(GPUS, 120)
    assert site.drivers() == dict.fromkeys(NODES, NEW)
    back = site.play(ROLLBACK_PLAYBOOK, "-l", "gpu_nodes", *SHORT, *BOTH_AT_ONCE)
    assert site.fabric() == before
    site.works(OLD)
    measured(f"two nodes, {OLD} to {NEW}", f"upgrade {forth.seconds:.0f} s, back {back.seconds:.0f} s")


def test_a_fabric_manager_without_its_subnet_manager_is_found(site: Site) -> None:
    program = "/opt/nvidia/nvlsm/sbin/nvlsm"
    site.lab.on(NODES[0], f"mv {program} {program}.away; systemctl restart nvidia-fabricmanager || true")
    try:
        found = site.lab.validate_nodes()
        assert "nodes.fabric" in {row["id"] for row in found.failed()}, found.failed()
    finally:
        site.lab.on(NODES[0], f"mv {program}.away {program}; systemctl restart nvidia-fabricmanager")
    site.lab.validate_nodes().assert_passed()


def test_a_machine_gives_all_of_it_back(site: Site) -> None:
    site.play("playbooks/remove_nodes.yml", "-l", ",".join(NODES))
    absent = ("site.yml", "-e", "nvidia_driver_state=absent")
    site.play(*absent)
    for node in NODES:
        assert site.left(node) == ""
    again = site.play(*absent)
    assert {host: row["changed"] for host, row in again.recap().items() if row["changed"]} == {}, str(again)
