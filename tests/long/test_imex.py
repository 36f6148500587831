"""The IMEX domain of nodes that serve: a list that changes, a reboot, a driver upgrade, and a list that leaves the inventory.

The lab's service reads its list, and stays; it exchanges no memory (docs/lab.md).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.e2e.harness import Ended, Lab
from tests.e2e.upgrades import NEW, OLD, ROLLBACK_PLAYBOOK, SHORT, upgrade_words

NODES = ("gpu-1", "gpu-2")
SYSTEMS = "gpu-1=ubuntu-24.04,gpu-2=rocky-9"
GPUS = dict.fromkeys(NODES, 1)
BOTH_AT_ONCE = ("-e", "gpu_upgrade_canary=2", "-e", "gpu_upgrade_max_unavailable=2")
LIST = "/etc/nvidia-imex/nodes_config.cfg"
STATE = "systemctl is-active nvidia-imex || true; systemctl is-enabled nvidia-imex || true"
RUN = "systemctl show --property=MainPID,ActiveEnterTimestampMonotonic nvidia-imex"
ON, OFF = "active\nenabled", "inactive\ndisabled"


@dataclass(frozen=True)
class Site:
    """Two nodes, and an inventory that names their domain."""

    lab: Lab
    inventory: Path

    @property
    def addresses(self) -> list[str]:
        """Of the nodes, as the inventory has them."""
        hosts = yaml.safe_load((self.inventory / "hosts.yml").read_text())["all"]["children"]["gpu_nodes"]
        return [hosts["hosts"][node]["ansible_host"] for node in NODES]

    def name(self, nodes: Sequence[str]) -> None:
        """Have the inventory name a domain."""
        path = self.inventory / "group_vars" / "gpu_nodes.yml"
        values = yaml.safe_load(path.read_text()) if path.exists() else {}
        values |= {"nvidia_driver_components": ["auto", "imex"], "nvidia_driver_imex_nodes": list(nodes)}
        path.write_text(yaml.safe_dump(values))

    def play(self, *words: str) -> Ended:
        """A playbook that must succeed."""
        ended = self.lab.playbook(*words, inventory=self.inventory)
        assert ended.status == 0, str(ended)
        return ended

    def unchanged(self) -> None:
        """A run of site.yml that finds nothing to do."""
        ended = self.play("site.yml")
        assert {host: row["changed"] for host, row in ended.recap().items() if row["changed"]} == {}, str(
            ended
        )

    def each(self, script: str) -> dict[str, str]:
        """What a script says on each node."""
        return {node: self.lab.on(node, script) for node in NODES}

    def works(self, nodes: Sequence[str]) -> None:
        """The service runs with these nodes, and the suite is content."""
        assert self.each(f"cat {LIST}") == dict.fromkeys(NODES, "\n".join(nodes))
        assert self.each(STATE) == dict.fromkeys(NODES, ON)
        found = self.lab.validate_nodes(inventory=self.inventory)
        found.assert_passed()
        checks = {row["id"]: row["outcome"] for row in found.results["checks"]}
        assert checks["nodes.imex"] == "passed"

    def kept(self, says: str) -> None:
        """site.yml leaves the service alone, and ends with what a person has to do; the suite says it as well."""
        before = self.each(f"cat {LIST}; {RUN}")
        ended = self.lab.site(inventory=self.inventory)
        assert ended.status != 0
        assert says in " ".join(ended.output.split()), str(ended)
        assert self.each(f"cat {LIST}; {RUN}") == before
        found = self.lab.validate_nodes(inventory=self.inventory)
        assert [row["id"] for row in found.failed()].count("nodes.imex") == len(NODES), found.failed()


@pytest.fixture(scope="module")
def site(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    lab = Lab(root, root / ".cache" / "long" / str(int(time.time())))
    lab.gpulab("down")
    lab.up("--gpus", "1", "--os", SYSTEMS)
    made = Site(lab, lab.copy_inventory(tmp_path_factory.mktemp("inventory")))
    made.name(made.addresses)
    made.play("site.yml")
    yield made
    lab.gpulab("down")


def test_bare_machines_get_their_domain(site: Site) -> None:
    site.works(site.addresses)
    site.unchanged()


def test_a_reboot_brings_it_back(site: Site) -> None:
    before = site.lab.boots()
    site.lab.gpulab("reboot", "--all")
    site.lab.wait_allocatable(GPUS, 180, rebooted_since=before)
    site.works(site.addresses)


def test_another_driver_and_back(site: Site) -> None:
    site.play(*upgrade_words("gpu_nodes", NEW, *BOTH_AT_ONCE))
    assert site.each(STATE) == dict.fromkeys(NODES, ON)
    assert all(NEW in said for said in site.each("nvidia-imex --version").values())
    site.play(ROLLBACK_PLAYBOOK, "-l", "gpu_nodes", *SHORT, *BOTH_AT_ONCE)
    assert all(OLD in said for said in site.each("nvidia-imex --version").values())
    site.works(site.addresses)


def test_another_list_waits_until_the_service_is_stopped(site: Site) -> None:
    others = site.addresses[::-1]
    site.name(others)
    site.kept("service 'nvidia-imex' runs with other nodes than the inventory names")
    site.each("systemctl stop nvidia-imex")
    site.play("site.yml")
    site.works(others)
    site.unchanged()


def test_a_list_leaves_with_the_inventory(site: Site) -> None:
    site.name([])
    site.kept("runs with nodes that the inventory does not name any more")
    site.each("systemctl stop nvidia-imex")
    site.play("site.yml")
    assert site.each(f"{STATE}; ls {LIST} /var/lib/gpusmith/imex-nodes.cfg 2>/dev/null || true") == (
        dict.fromkeys(NODES, OFF)
    )
    site.unchanged()
