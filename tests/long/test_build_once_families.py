"""One compile for two nodes of each system, Ubuntu and EL, of a driver that the inventory names by its branch."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.harness import Ended, Lab
from tests.e2e.upgrades import NEW, NEXT_BRANCH, ROLLBACK_PLAYBOOK, SHORT, upgrade_words

SYSTEMS = {"gpu-1": "ubuntu-24.04", "gpu-2": "ubuntu-24.04", "gpu-3": "rocky-9", "gpu-4": "rocky-9"}
BRANCH = NEW.partition(".")[0]
ALL_AT_ONCE = ("-e", "gpu_upgrade_canary=4", "-e", "gpu_upgrade_max_unavailable=4")
HELD = {
    "ubuntu-24.04": "apt-mark showhold",
    "rocky-9": "grep -v '^#' /etc/dnf/plugins/versionlock.list",
}


@pytest.fixture(scope="module")
def fleet(root: Path) -> Iterator[Lab]:
    """Four bare machines with one GPU each."""
    lab = Lab(root, root / ".cache" / "long" / str(int(time.time())))
    lab.gpulab("down")
    systems = ",".join(f"{node}={system}" for node, system in SYSTEMS.items())
    lab.up("--gpu-nodes", str(len(SYSTEMS)), "--gpus", "1", "--os", systems)
    yield lab
    lab.gpulab("down")


@pytest.fixture(scope="module")
def inventory(fleet: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lab's, in which one node of a system builds for the other, a branch of the driver."""
    found = fleet.copy_inventory(tmp_path_factory.mktemp("inventory"))
    cache = tmp_path_factory.mktemp("cache") / "modules"
    write(
        found / "group_vars" / "all.yml",
        nvidia_driver_build="once_per_kernel",
        nvidia_driver_build_cache=str(cache),
    )
    write(found / "group_vars" / "gpu_nodes.yml", nvidia_driver_version=BRANCH)
    return found


def write(path: Path, **changes: str) -> None:
    """Set variables of a group."""
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **changes}))


def compiles(lab: Lab) -> Counter[tuple[str, str]]:
    """Compiles by system and version, by the log that the simulated dkms keeps on each machine."""
    found: Counter[tuple[str, str]] = Counter()
    for node, system in SYSTEMS.items():
        lines = lab.on(node, "cat /var/log/simgpu-compiled.jsonl 2>/dev/null || true").splitlines()
        found.update((system, json.loads(line)["version"]) for line in lines if line.startswith("{"))
    return found


def good(ended: Ended) -> Ended:
    assert ended.status == 0, str(ended)
    return ended


def once(version: str) -> dict[tuple[str, str], int]:
    """One compile for each system."""
    return {(system, version): 1 for system in set(SYSTEMS.values())}


def loaded(lab: Lab) -> set[str]:
    return {lab.on(node, "cat /sys/module/nvidia/version") for node in SYSTEMS}


def assert_made_among_themselves(lab: Lab) -> None:
    """The modules name the machine that compiled them: one of the same system."""
    for node, system in SYSTEMS.items():
        assert SYSTEMS[lab.on(node, "modinfo -F compiled_on nvidia")] == system


def test_a_branch_is_one_version_with_one_compile_for_each_system(
    fleet: Lab, inventory: Path, measured: Callable[[str, object], None]
) -> None:
    first = good(fleet.site(inventory=inventory))
    assert f"Driver '{BRANCH}' is {NEW} in this run" in " ".join(first.output.split())
    assert (loaded(fleet), compiles(fleet)) == ({NEW}, once(NEW))
    assert_made_among_themselves(fleet)
    for node, system in SYSTEMS.items():
        assert "nvidia" in fleet.on(node, HELD[system])
    fleet.wait_allocatable(dict.fromkeys(SYSTEMS, 1), 60)
    again = good(fleet.site(inventory=inventory))
    assert {host: row["changed"] for host, row in again.recap().items() if row["changed"]} == {}, str(again)
    measured("four bare nodes of two systems, two compiles", f"first site.yml {first.seconds:.0f} s")


def test_the_next_branch_and_back(
    fleet: Lab, inventory: Path, measured: Callable[[str, object], None]
) -> None:
    words = upgrade_words("gpu_nodes", NEXT_BRANCH, *ALL_AT_ONCE)
    forth = good(fleet.playbook(*words, inventory=inventory))
    assert (loaded(fleet), compiles(fleet)) == ({NEXT_BRANCH}, {**once(NEW), **once(NEXT_BRANCH)})
    assert_made_among_themselves(fleet)
    back = good(
        fleet.playbook(ROLLBACK_PLAYBOOK, "-l", "gpu_nodes", *SHORT, *ALL_AT_ONCE, inventory=inventory)
    )
    assert (loaded(fleet), compiles(fleet)) == ({NEW}, {**once(NEW), **once(NEXT_BRANCH)})
    fleet.validate_nodes(inventory=inventory).assert_passed()
    measured(
        f"four nodes, {NEW} to {NEXT_BRANCH}", f"upgrade {forth.seconds:.0f} s, back {back.seconds:.0f} s"
    )
