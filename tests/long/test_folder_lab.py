"""Driver and CUDA from folders of package files alone, with apt and dnf: brought in, upgraded and back, kept, refused by name."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.e2e.harness import Ended, Lab
from tests.e2e.upgrades import NEW, OLD, ROLLBACK_PLAYBOOK, SHORT, upgrade_words

UBUNTU, ROCKY = "gpu-1", "gpu-2"
NODES = (UBUNTU, ROCKY)
SYSTEMS = {UBUNTU: "ubuntu-24.04", ROCKY: "rocky-9"}
KIND = {UBUNTU: "deb", ROCKY: "rpm"}
# What a node lacks of what the driver's packages need; by folder of the depot.
BESIDE = {UBUNTU: "ubuntu/dkms_*.deb", ROCKY: "epel/dkms-*.rpm"}
CUDA = ("cuda/cuda-*-12-8*", "cuda/cuda-toolkit-config-common*")
ONE_OF_SET = {UBUNTU: "nvidia-compute-utils-580_*", ROCKY: "libnvidia-cfg-*"}
"""A package that no role asks for by itself on Ubuntu, and one that it does on Rocky."""
BOTH_AT_ONCE = ("-e", "gpu_upgrade_canary=2", "-e", "gpu_upgrade_max_unavailable=2")
KEPT = "/var/lib/gpusmith/repositories/nvidia-driver"
SITE = """
(dpkg-query -W 2>/dev/null || rpm -qa) | sort
find /etc -type f -exec sha256sum {} + | sort
"""
"""What a machine has, in lines."""


def list_files(folder: Path) -> None:
    """As a person does, by the words of docs/provisioning.md."""
    kind = "deb" if any(folder.glob("*.deb")) else "rpm"
    done = subprocess.run(
        ["sh", "-c", f"sha256sum *.{kind} > SHA256SUMS"], cwd=folder, check=False, timeout=60
    )
    assert done.returncode == 0, folder


@dataclass(frozen=True)
class Site:
    """A mixed fleet without a repository of the driver.

    Attributes:
        lab: with machines that are bare at first.
        packages: by node, what the depot has for it; a site would have it from the vendors.
        folder: for the site's own folders.
        inventory: names no repository of the driver.
    """

    lab: Lab
    packages: dict[str, Path]
    folder: Path
    inventory: Path

    def fill(self, name: str, node: str, *patterns: str) -> Path:
        """A folder of files for a node, with its list."""
        target = self.folder / name / KIND[node]
        target.mkdir(parents=True)
        for pattern in patterns:
            found = list(self.packages[node].glob(pattern))
            assert found, f"{self.packages[node]} has no {pattern}"
            for path in found:
                shutil.copy(path, target)
        list_files(target)
        return target

    def of_driver(self, version: str) -> dict[str, Path]:
        """Folders with a version of the driver."""
        return {
            node: self.fill(version, node, f"cuda/*nvidia*{version}*.{KIND[node]}", BESIDE[node])
            for node in NODES
        }

    def use(self, driver: dict[str, Path], version: str, cuda: dict[str, Path]) -> None:
        """Name these folders, and no repository besides."""
        for path in sorted((self.inventory / "group_vars").glob("*.yml")):
            values = yaml.safe_load(path.read_text())
            if "nvidia_driver_repository" in values:
                node = ROCKY if values["nvidia_driver_repository"].get("type") == "rpm" else UBUNTU
                kept = {"type": "rpm"} if node == ROCKY else {}
                values["nvidia_driver_repository"] = {**kept, "folder": str(driver[node])}
                values["cuda_toolkit_repository"] = {**kept, "folder": str(cuda[node])}
            if "nvidia_driver_version" in values:
                values["nvidia_driver_version"] = version
            path.write_text(yaml.safe_dump(values))

    def site(self, *words: str) -> Ended:
        """Run site.yml, whatever its exit status."""
        return self.lab.site(*words, inventory=self.inventory)

    def site_ok(self) -> Ended:
        """Run site.yml, which must succeed."""
        ended = self.site()
        assert ended.status == 0, str(ended)
        return ended

    def unchanged(self) -> None:
        """A run that finds nothing to do."""
        ended = self.site_ok()
        assert {host: row["changed"] for host, row in ended.recap().items() if row["changed"]} == {}, str(
            ended
        )

    def play(self, *words: str) -> Ended:
        """A playbook that must succeed."""
        ended = self.lab.playbook(*words, inventory=self.inventory)
        assert ended.status == 0, str(ended)
        return ended

    def has(self) -> dict[str, str]:
        """What machines have."""
        return {node: self.lab.on(node, SITE) for node in NODES}

    def driver(self) -> dict[str, str]:
        """The driver's version by node: its packages', with the revision of whose they are, and the loaded module's."""
        asked = {
            UBUNTU: "dpkg-query -W -f '${Version}' libnvidia-compute-580",
            ROCKY: "rpm -q --qf '%{VERSION}-%{RELEASE}' nvidia-driver-cuda",
        }
        return {
            node: self.lab.on(node, f"{words}; printf ' '; cat /sys/module/nvidia/version")
            for node, words in asked.items()
        }

    def kept(self) -> dict[str, int]:
        """How many folders of the driver's packages each node keeps."""
        return {node: len(self.lab.on(node, f"ls {KEPT} 2>/dev/null || true").split()) for node in NODES}


def of_vendor(version: str) -> dict[str, str]:
    """The vendor's packages of a version, loaded; Ubuntu's archive, which nodes can reach, has another revision of it."""
    return {UBUNTU: f"{version}-1ubuntu1 {version}", ROCKY: f"{version}-1.el9 {version}"}


@pytest.fixture(scope="module")
def site(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    lab = Lab(root, root / ".cache" / "long" / str(int(time.time())))
    lab.gpulab("down")
    lab.up("--gpus", "1", "--os", ",".join(f"{node}={system}" for node, system in SYSTEMS.items()))
    depot = tmp_path_factory.mktemp("depot")
    for system in SYSTEMS.values():
        lab.ok("podman", "cp", f"gpulab-depot:/srv/{system}", str(depot / system))
    inventory = lab.copy_inventory(tmp_path_factory.mktemp("inventory"))
    folder = tmp_path_factory.mktemp("site")
    yield Site(lab, {node: depot / system for node, system in SYSTEMS.items()}, folder, inventory)
    lab.gpulab("down")


@pytest.fixture(scope="module")
def cuda(site: Site) -> dict[str, Path]:
    return {node: site.fill("cuda", node, *CUDA) for node in NODES}


@pytest.fixture(scope="module")
def old(site: Site) -> dict[str, Path]:
    return site.of_driver(OLD)


@pytest.fixture(scope="module")
def new(site: Site) -> dict[str, Path]:
    return site.of_driver(NEW)


@pytest.mark.parametrize("incomplete", NODES)
def test_a_folder_that_is_not_whole_is_refused_before_any_change(
    site: Site, old: dict[str, Path], cuda: dict[str, Path], incomplete: str
) -> None:
    """On one node a package is missing, on the other one a file is not what its list says."""
    (changed,) = set(NODES) - {incomplete}
    spoilt = {node: site.folder / f"without-{incomplete}" / KIND[node] for node in NODES}
    for node, target in spoilt.items():
        shutil.copytree(old[node], target)
    (missing,) = spoilt[incomplete].glob(ONE_OF_SET[incomplete])
    missing.unlink()
    list_files(spoilt[incomplete])
    other = min(spoilt[changed].glob(f"*{OLD}*"))
    other.write_bytes(other.read_bytes()[:-16] + b"sixteen bytes...")
    site.use(spoilt, OLD, cuda)
    before = site.has()
    ended = site.site()
    assert ended.status != 0, str(ended)
    name = missing.name.partition("_")[0] if incomplete == UBUNTU else missing.name.partition(f"-{OLD}")[0]
    assert name in ended.output, str(ended)
    assert f"'{other.name}' are others than it says" in ended.output, str(ended)
    assert site.has() == before


def test_a_mixed_fleet_is_brought_in_from_folders(
    site: Site, old: dict[str, Path], cuda: dict[str, Path], measured: Callable[[str, object], None]
) -> None:
    site.use(old, OLD, cuda)
    first = site.site_ok()
    assert site.driver() == of_vendor(OLD)
    site.lab.wait_allocatable(dict.fromkeys(NODES, 1), 60)
    # What was looked at before and refused is of no use to anybody.
    assert site.kept() == dict.fromkeys(NODES, 1)
    for node in NODES:
        sources = "/etc/apt/sources.list* /etc/yum.repos.d"
        assert site.lab.on(node, f"grep -rl /cuda/ {sources} 2>/dev/null || true") == ""
    site.unchanged()
    site.lab.validate_nodes(inventory=site.inventory).assert_passed()
    measured("two bare nodes, driver and CUDA from folders", f"first site.yml {first.seconds:.0f} s")


def test_a_newer_folder_is_the_way_to_a_newer_driver_and_back(
    site: Site,
    old: dict[str, Path],
    new: dict[str, Path],
    cuda: dict[str, Path],
    measured: Callable[[str, object], None],
) -> None:
    assert old.keys() == new.keys()
    site.use(new, OLD, cuda)
    forth = site.play(*upgrade_words("gpu_nodes", NEW, *BOTH_AT_ONCE))
    assert site.driver() == of_vendor(NEW), str(forth)
    back = site.play(ROLLBACK_PLAYBOOK, "-l", "gpu_nodes", *SHORT, *BOTH_AT_ONCE)
    assert site.driver() == of_vendor(OLD), str(back)
    measured("two nodes", f"upgrade {forth.seconds:.0f} s, back {back.seconds:.0f} s")
    # The inventory names the newer folder, which has nothing of what they run.
    site.site_ok()
    assert site.driver() == of_vendor(OLD)
    assert site.kept() == dict.fromkeys(NODES, 2)
    site.unchanged()


def test_earlier_folders_go_once_nobody_needs_them(
    site: Site, new: dict[str, Path], cuda: dict[str, Path]
) -> None:
    # One more list of the same packages, as after a look at the folder.
    again = {}
    for node, folder in new.items():
        again[node] = site.folder / "again" / KIND[node]
        shutil.copytree(folder, again[node])
        (again[node] / "SHA256SUMS").write_text((folder / "SHA256SUMS").read_text() + "\n")
    site.use(again, OLD, cuda)
    site.site_ok()
    # That of the version that they run, and the one that is in force.
    assert site.kept() == dict.fromkeys(NODES, 2)
    site.play(*upgrade_words("gpu_nodes", NEW, *BOTH_AT_ONCE))
    site.use(new, NEW, cuda)
    site.site_ok()
    assert site.kept() == dict.fromkeys(NODES, 1)
    assert site.driver() == of_vendor(NEW)
    site.unchanged()
