"""One compile for three nodes of the lab: brought in, damaged and repaired, upgraded and brought back."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.harness import Ended, Lab
from tests.e2e.upgrades import NEW, OLD, ROLLBACK_PLAYBOOK, SHORT, upgrade_words

NODES = ("gpu-1", "gpu-2", "gpu-3")
KERNEL_MODULE = "$(modinfo -n nvidia)"
TAKEN = "/var/lib/gpusmith/modules"


@pytest.fixture(scope="module")
def fleet(root: Path) -> Iterator[Lab]:
    """Three bare machines with one GPU each."""
    lab = Lab(root, root / ".cache" / "long" / str(int(time.time())))
    lab.gpulab("down")
    lab.up("--gpu-nodes", str(len(NODES)), "--gpus", "1")
    yield lab
    lab.gpulab("down")


@pytest.fixture(scope="module")
def inventory(fleet: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lab's, in which one node builds for all."""
    found = fleet.copy_inventory(tmp_path_factory.mktemp("inventory"))
    path = found / "group_vars" / "all.yml"
    values = yaml.safe_load(path.read_text())
    values["nvidia_driver_build"] = "once_per_kernel"
    values["nvidia_driver_build_cache"] = str(tmp_path_factory.mktemp("cache") / "modules")
    path.write_text(yaml.safe_dump(values))
    return found


def compiled(lab: Lab) -> Counter[tuple[str, str]]:
    """Compiles by machine and version, by the log that the simulated dkms keeps on each."""
    found: Counter[tuple[str, str]] = Counter()
    for node in NODES:
        lines = lab.on(node, "cat /var/log/simgpu-compiled.jsonl 2>/dev/null || true").splitlines()
        found.update((node, json.loads(line)["version"]) for line in lines if line.startswith("{"))
    return found


def makers(lab: Lab) -> set[str]:
    """Machines that the modules themselves name as the one that compiled them."""
    return {lab.on(node, "modinfo -F compiled_on nvidia") for node in NODES}


def good(ended: Ended) -> Ended:
    assert ended.status == 0, str(ended)
    return ended


def test_three_nodes_one_compile(fleet: Lab, inventory: Path) -> None:
    told = good(fleet.site("--check", inventory=inventory)).output
    assert ", for 'gpu-2' and 'gpu-3' as well" in told
    assert "from 'gpu-1', or from whoever comes first" in told
    assert compiled(fleet) == {}
    first = good(fleet.site(inventory=inventory))
    ((builder, version),) = compiled(fleet)
    assert (version, compiled(fleet).total(), makers(fleet)) == (OLD, 1, {builder})
    assert f"{builder}: compiled the driver's modules for kernel" in first.output
    fleet.wait_allocatable(dict.fromkeys(NODES, 1), 60)
    again = good(fleet.site(inventory=inventory))
    assert {host: row["changed"] for host, row in again.recap().items() if row["changed"]} == {}, str(again)
    fleet.validate_nodes(inventory=inventory).assert_passed()
    for node in NODES:
        assert fleet.on(node, "ls /etc/dkms 2>/dev/null || true") == ""
        assert (fleet.on(node, f"ls {TAKEN} 2>/dev/null || true") == "") is (node == builder)


def test_a_taken_module_that_was_changed_is_found_and_taken_again(fleet: Lab, inventory: Path) -> None:
    before = compiled(fleet)
    taker = next(node for node in NODES if (node, OLD) not in before)
    starts = fleet.service_starts(taker)
    fleet.on(taker, f"printf x >> {KERNEL_MODULE}")
    found = fleet.validate_nodes(inventory=inventory)
    assert found.ended.status == 1, str(found.ended)
    assert "has another checksum than the one that was taken" in found.causes(taker)
    good(fleet.site(inventory=inventory))
    fleet.validate_nodes(inventory=inventory).assert_passed()
    assert (compiled(fleet), fleet.service_starts(taker)) == (before, starts)
    # Who builds on every node again has what DKMS keeps.
    fleet.on(taker, f"printf x >> {KERNEL_MODULE}")
    good(fleet.site("-e", "nvidia_driver_build=every_node", inventory=inventory))
    fleet.validate_nodes(inventory=inventory).assert_passed()
    assert (compiled(fleet), fleet.service_starts(taker)) == (before, starts)


def test_an_upgrade_that_begins_at_a_taker_and_back(fleet: Lab, inventory: Path) -> None:
    before = compiled(fleet)
    taker = next(node for node in NODES if (node, OLD) not in before)
    good(fleet.playbook(*upgrade_words(taker, NEW), inventory=inventory))
    assert compiled(fleet) - before == {(taker, NEW): 1}
    good(fleet.playbook(ROLLBACK_PLAYBOOK, "-l", taker, *SHORT, inventory=inventory))
    assert compiled(fleet) - before == {(taker, NEW): 1}
    assert fleet.on(taker, "modinfo -F version nvidia") == OLD
    fleet.validate_nodes(inventory=inventory).assert_passed()


def test_an_upgrade_compiles_once_and_the_way_back_does_not(fleet: Lab, inventory: Path) -> None:
    all_at_once = ("-e", "gpu_upgrade_max_unavailable=3")
    ended = good(fleet.playbook(*upgrade_words("gpu_nodes", NEW, *all_at_once), inventory=inventory))
    assert "takes the modules of '" in ended.output
    seen = compiled(fleet)
    # The controller has what the test before has built.
    assert sum(count for (_node, version), count in seen.items() if version == NEW) == 1
    assert {fleet.on(node, "modinfo -F version nvidia") for node in NODES} == {NEW}
    back = [ROLLBACK_PLAYBOOK, "-l", "gpu_nodes", *SHORT, *all_at_once]
    good(fleet.playbook(*back, inventory=inventory))
    assert {fleet.on(node, "modinfo -F version nvidia") for node in NODES} == {OLD}
    assert compiled(fleet) == seen


def test_a_kernel_without_headers_is_compiled_for_once(fleet: Lab, inventory: Path) -> None:
    before = compiled(fleet)
    for node in NODES:
        fleet.on(node, "DEBIAN_FRONTEND=noninteractive apt-get install --yes linux-image-amd64")
    good(fleet.site(inventory=inventory))
    assert (compiled(fleet) - before).total() == 1
    for node in NODES:
        assert fleet.on(node, "ls /etc/dkms 2>/dev/null || true") == ""
    fleet.validate_nodes(inventory=inventory).assert_passed()
