"""A node that kubespray built: refused as it is, then adopted, validated, upgraded, rebooted, and given back, always itself."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gpusmith.names import OPERANDS_LABEL
from tests.e2e.conftest import STAMP
from tests.e2e.harness import Lab
from tests.e2e.upgrades import NEW, upgrade_words
from tests.long import kubespray

NODE, GPUS = "gpu-1", 2


@pytest.fixture(scope="module")
def built(root: Path) -> Iterator[Lab]:
    lab = Lab(root, root / ".cache" / "long" / str(int(time.time())))
    lab.gpulab("down")
    lab.up("--gpu-nodes", "1", "--gpus", str(GPUS))
    kubespray.build(lab, NODE)
    yield lab
    lab.gpulab("down")


@pytest.fixture(scope="module")
def owners(built: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The inventory of a site that leaves runtime and kubelet to kubespray: it says nothing of them but that."""
    inventory = built.copy_inventory(tmp_path_factory.mktemp("adopted") / "inventory")
    for path in inventory.rglob("*.yml"):
        values = yaml.safe_load(path.read_text())
        kept = {
            key: value
            for key, value in values.items()
            if not key.startswith(("containerd_", "kubernetes_node_")) or key == "kubernetes_node_taints"
        }
        if path.name == "gpu_nodes.yml":
            kept |= {"containerd_owner": "existing", "kubernetes_node_owner": "existing"}
        path.write_text(yaml.safe_dump(kept))
    return inventory


@pytest.fixture(scope="module")
def before(built: Lab) -> str:
    found = kubespray.what_runs(built, NODE)
    assert found.count("/usr/local/bin/") == 2, found
    assert "installed" not in found
    return found


def test_it_is_refused_as_long_as_the_inventory_says_that_it_is_ours(built: Lab, before: str) -> None:
    refused = built.site("-l", NODE)
    said = " ".join(refused.output.split())
    assert refused.status != 0, str(refused)
    assert "'containerd_owner: existing'" in said, str(refused)
    assert "'kubernetes_node_owner: existing'" in said, str(refused)
    assert kubespray.what_runs(built, NODE) == before


def test_it_is_adopted_and_validated(built: Lab, owners: Path, before: str) -> None:
    check = built.site("--check", inventory=owners)
    assert check.status == 0, str(check)
    first = built.site(inventory=owners)
    assert first.status == 0, str(first)
    assert kubespray.what_runs(built, NODE) == before
    built.wait_allocatable({NODE: GPUS}, 120)
    metadata = built.get("node", NODE)["metadata"]
    assert STAMP in metadata["annotations"]
    assert metadata["labels"][OPERANDS_LABEL]


def test_a_second_run_changes_nothing(built: Lab, owners: Path) -> None:
    second = built.site(inventory=owners)
    assert second.status == 0, str(second)
    assert second.recap()[NODE]["changed"] == 0, str(second)
    built.validate(inventory=owners).assert_passed()


def test_its_driver_is_upgraded(built: Lab, owners: Path, before: str) -> None:
    done = built.playbook(*upgrade_words(NODE, NEW), inventory=owners)
    assert done.status == 0, str(done)
    assert NEW in built.on(NODE, "cat /sys/module/nvidia/version")
    assert kubespray.what_runs(built, NODE) == before


def test_it_boots_as_itself(built: Lab, owners: Path, before: str) -> None:
    boots = built.boots()
    built.gpulab("reboot", NODE)
    built.wait_allocatable({NODE: GPUS}, 180, rebooted_since=boots)
    assert kubespray.what_runs(built, NODE) == before
    built.validate("-k", "not throttle", inventory=_with(owners, NEW)).assert_passed()


def test_it_is_given_back(built: Lab, owners: Path, before: str) -> None:
    done = built.playbook("playbooks/remove_nodes.yml", "-l", NODE, inventory=owners)
    assert done.status == 0, str(done)
    node = built.get("node", NODE)
    assert [name for name in node["metadata"]["labels"] if name.startswith("gpusmith.io/")] == []
    assert STAMP not in node["metadata"]["annotations"]
    assert kubespray.what_runs(built, NODE) == before
    ready = {row["type"]: row["status"] for row in node["status"]["conditions"]}
    assert ready["Ready"] == "True"


def _with(inventory: Path, version: str) -> Path:
    """After an upgrade the inventory says so."""
    path = inventory / "group_vars" / "gpu_nodes.yml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "nvidia_driver_version": version}))
    return inventory
