"""Both artefacts in empty environments, from another folder: playbooks by name, suite, and what is said where one is missing."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.e2e.harness import Ended, Lab

NODES = ("gpu-1", "gpu-2")
COMMUNITY = Path(sys.prefix) / "lib"


@dataclass(frozen=True)
class Elsewhere:
    """An environment and a folder that know nothing of the checkout."""

    lab: Lab
    folder: Path
    programs: Path

    def run(self, *words: str, timeout: float = 900.0) -> Ended:
        """A program of the environment."""
        path = f"PATH={self.programs}:/usr/bin:/bin"
        command = ["env", "-u", "ANSIBLE_CONFIG", "-u", "VIRTUAL_ENV", "-u", "PYTHONPATH", path]
        return self.lab.run(*command, *words, cwd=self.folder, timeout=timeout)


def environment(lab: Lab, folder: Path, *packages: str) -> Path:
    """Programs of a new environment with these packages, and what they need."""
    lab.ok(sys.executable, "-m", "venv", str(folder), timeout=120)
    lab.ok(
        str(folder / "bin/pip"), "--disable-pip-version-check", "install", "--quiet", *packages, timeout=600
    )
    return folder / "bin"


@pytest.fixture(scope="module")
def lab(root: Path) -> Iterator[Lab]:
    lab = Lab(root, root / ".cache" / "long" / str(int(time.time())))
    lab.gpulab("down")
    lab.up()
    lab.site_ok()
    yield lab
    lab.gpulab("down")


@pytest.fixture(scope="module")
def dist(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    lab.ok(str(lab.root / "scripts/dist"), str(folder))
    return folder


@pytest.fixture(scope="module")
def elsewhere(lab: Lab, dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Elsewhere:
    """The wheel in an environment of its own. Galaxy is out of reach: community.general comes from the checkout."""
    base = tmp_path_factory.mktemp("installed")
    (wheel,) = dist.glob("gpusmith-*.whl")
    programs = environment(lab, base / "venv", str(wheel))
    (site,) = (base / "venv/lib").glob("python3.*/site-packages")
    (theirs,) = COMMUNITY.glob("python3.*/site-packages/ansible_collections/community/general")
    (site / "ansible_collections/community").mkdir()
    (site / "ansible_collections/community/general").symlink_to(theirs)
    (base / "stand").mkdir()
    lab.copy_inventory(base / "stand/inventory")
    return Elsewhere(lab, base / "stand", programs)


def test_the_playbooks_run_by_name(elsewhere: Elsewhere) -> None:
    check = elsewhere.run("ansible-playbook", "-i", "inventory", "gpusmith.gpu.provision_nodes", "--check")
    assert check.status == 0, str(check)
    done = elsewhere.run("ansible-playbook", "-i", "inventory", "gpusmith.gpu.provision_nodes")
    assert done.status == 0, str(done)
    assert {node: done.recap()[node]["changed"] for node in NODES} == dict.fromkeys(NODES, 0), str(done)
    proved = elsewhere.run("ansible-playbook", "-i", "inventory", "gpusmith.gpu.validate", "-l", NODES[0])
    assert proved.status == 0, str(proved)
    assert (elsewhere.folder / "reports/latest/report.html").is_file(), "reports lie where one stands"


def test_the_suite_runs_by_its_command(elsewhere: Elsewhere) -> None:
    # Another project's settings, which would have pytest fail.
    (elsewhere.folder / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    assert elsewhere.run("gpusmith", "validate", "--help").status == 0
    done = elsewhere.run("gpusmith", "validate", "--inventory", "inventory", "--report-dir", "mine")
    assert done.status == 0, str(done)
    said = elsewhere.run("gpusmith", "report", "mine")
    assert said.status == 0, str(said)
    assert "nodes: 2 of 2 tested; GPUs: 8 of 8 tested" in said.output
    elsewhere.lab.gpulab("fault", NODES[0], "gpu-lost", "--gpu", "2")
    try:
        failed = elsewhere.run("gpusmith", "validate", "--inventory", "inventory", "--tier", "nodes")
        assert failed.status == 1, str(failed)
        assert elsewhere.run("gpusmith", "report").status == 1
    finally:
        elsewhere.lab.gpulab("heal", NODES[0])


def test_the_collection_alone_names_the_package_that_it_needs(
    lab: Lab, dist: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    base = tmp_path_factory.mktemp("galaxy")
    alone = Elsewhere(lab, base, environment(lab, base / "venv", "ansible-core>=2.19,<2.22"))
    (archive,) = dist.glob("gpusmith-gpu-*.tar.gz")
    collections = str(base / "collections")
    installed = alone.run(
        "ansible-galaxy", "collection", "install", "--offline", "--no-deps", "-p", collections, str(archive)
    )
    assert installed.status == 0, str(installed)
    (base / "hosts.yml").write_text(yaml.safe_dump({"gpu_nodes": {"hosts": {NODES[0]: None}}}))
    playbook = ["ansible-playbook", "-i", "hosts.yml", "gpusmith.gpu.provision_nodes"]
    refused = alone.run("env", f"ANSIBLE_COLLECTIONS_PATH={collections}", *playbook)
    assert refused.status != 0
    assert "Install it: python3 -m pip install gpusmith==" in " ".join(refused.output.split()), str(refused)
    assert "Traceback" not in refused.output
