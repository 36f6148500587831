"""Debian 13 and EL 10, which has no module streams: from bare machines to jobs, to the next branch of the driver and back."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from gpulab.artifacts import repos

from tests.e2e.harness import Ended, Lab
from tests.e2e.upgrades import NEXT_BRANCH, OLD, ROLLBACK_PLAYBOOK, SHORT, upgrade_words

DEBIAN, ROCKY = "gpu-1", "gpu-2"
NODES = (DEBIAN, ROCKY)
SYSTEMS = {DEBIAN: "debian-13", ROCKY: "rocky-10"}
HAS = "(dpkg-query -W 2>/dev/null || rpm -qa) | sort; find /etc -type f -exec sha256sum {} + | sort"
"""What a machine has, in lines."""
BOTH_AT_ONCE = ("-e", "gpu_upgrade_canary=2", "-e", "gpu_upgrade_max_unavailable=2")
OF_DRIVER = {
    DEBIAN: "dpkg-query -W -f '${Version} ${Package} ${db:Status-Abbrev}\n' '*nvidia*' libcuda1 | sed -n 's/ [hi]i *$//p'",
    ROCKY: "rpm -qa --qf '%{VERSION} %{NAME}\\n' '*nvidia*'",
}


@dataclass(frozen=True)
class Site:
    """A node of each system."""

    lab: Lab
    inventory: Path

    def want(self, version: str) -> None:
        """Name a driver in the inventory."""
        path = self.inventory / "group_vars" / "gpu_nodes.yml"
        values = yaml.safe_load(path.read_text())
        path.write_text(yaml.safe_dump({**values, "nvidia_driver_version": version}))

    def site(self, *words: str) -> Ended:
        """Run site.yml, which must succeed."""
        ended = self.lab.site(*words, inventory=self.inventory)
        assert ended.status == 0, str(ended)
        return ended

    def unchanged(self) -> None:
        """A run that finds nothing to do."""
        ended = self.site()
        changed = {host: row["changed"] for host, row in ended.recap().items() if row["changed"]}
        assert changed == {}, str(ended)

    def play(self, *words: str) -> Ended:
        """A playbook that must succeed."""
        ended = self.lab.playbook(*words, inventory=self.inventory)
        assert ended.status == 0, str(ended)
        return ended

    def runs(self, version: str) -> None:
        """Loaded module and all packages of the driver are of a version, on both nodes, and the suite is content."""
        for node in NODES:
            assert self.lab.on(node, "cat /sys/module/nvidia/version") == version
            rows = [line.split() for line in self.lab.on(node, OF_DRIVER[node]).splitlines()]
            # The container toolkit's versions are its own.
            driver = {name: found for found, name in rows if found.startswith("5")}
            assert driver, rows
            other = {name: found for name, found in driver.items() if not found.startswith(version)}
            assert other == {}
        self.lab.wait_allocatable(dict.fromkeys(NODES, 1), 60)
        self.lab.validate(inventory=self.inventory).assert_passed()


@pytest.fixture(scope="module")
def site(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    lab = Lab(root, root / ".cache" / "long" / str(int(time.time())))
    lab.gpulab("down")
    lab.up("--gpus", "1", "--os", ",".join(f"{node}={system}" for node, system in SYSTEMS.items()))
    yield Site(lab, lab.copy_inventory(tmp_path_factory.mktemp("inventory")))
    lab.gpulab("down")


@pytest.mark.parametrize("node", NODES)
def test_keys_of_others_are_refused_before_any_change(site: Site, node: str, tmp_path: Path) -> None:
    """Debian signs lists, NVIDIA's repository for EL nothing but packages."""
    path = site.inventory / "host_vars" / f"{node}.yml"
    path.parent.mkdir(exist_ok=True)
    group = {DEBIAN: "all", ROCKY: "os_rocky_10"}[node]
    there = yaml.safe_load((site.inventory / "group_vars" / f"{group}.yml").read_text())
    other = repos.signing_key(tmp_path / "other").public.read_text()
    path.write_text(
        yaml.safe_dump({"nvidia_driver_repository": {**there["nvidia_driver_repository"], "key": other}})
    )
    before = {each: site.lab.on(each, HAS) for each in NODES}
    ended = site.lab.site(inventory=site.inventory)
    path.unlink()
    assert ended.status != 0, str(ended)
    assert not any(row["changed"] for row in ended.recap().values()), str(ended)
    assert {each: site.lab.on(each, HAS) for each in NODES} == before
    said = " ".join(ended.output.split())
    assert "'nvidia_driver_repository'" in said, str(ended)
    assert {DEBIAN: "is not signed", ROCKY: "is not signed by a key of its repository"}[node] in said, str(
        ended
    )


def test_bare_machines_are_made_nodes(site: Site, measured: Callable[[str, object], None]) -> None:
    release = {node: site.lab.on(node, ". /usr/lib/os-release; echo $ID-$VERSION_ID") for node in NODES}
    assert {node: name.partition(".")[0] for node, name in release.items()} == SYSTEMS
    told = site.site("--check").output
    assert not re.search(r"failed=[1-9]", told)
    first = site.site()
    site.runs(OLD)
    site.unchanged()
    # The repository of release 9 has streams, and there our own repository file is what makes them not count.
    assert "nvidia" not in site.lab.on(ROCKY, "dnf -q module list 2>&1 || true")
    measured("two bare nodes", f"first site.yml {first.seconds:.0f} s")


def test_nothing_is_needed_of_repositories_that_are_down(site: Site) -> None:
    site.lab.gpulab("depot", "stop")
    try:
        site.unchanged()
    finally:
        site.lab.gpulab("depot", "start")


def test_the_next_branch_and_back(site: Site, measured: Callable[[str, object], None]) -> None:
    forth = site.play(*upgrade_words("gpu_nodes", NEXT_BRANCH, *BOTH_AT_ONCE))
    site.want(NEXT_BRANCH)
    site.runs(NEXT_BRANCH)
    site.unchanged()
    back = site.play(ROLLBACK_PLAYBOOK, "-l", "gpu_nodes", *SHORT, *BOTH_AT_ONCE)
    site.want(OLD)
    site.runs(OLD)
    site.unchanged()
    measured(
        f"two nodes, {OLD} to {NEXT_BRANCH}", f"upgrade {forth.seconds:.0f} s, back {back.seconds:.0f} s"
    )
