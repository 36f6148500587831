"""What a person should know of a machine that is to become a node."""

from __future__ import annotations

from typing import Any

from gpusmith.expect import surroundings
from gpusmith.node.records import parse
from tests.unit.expect.converged import LAYOUTS, SETTINGS, converged_record
from tests.unit.expect.role_plans import driver_plan, host_baseline_plan
from tests.unit.families.systems import SYSTEMS, value

RUNS = {"active": "active", "enabled": "enabled"}
DRACUT = "/etc/dracut.conf.d/gpusmith-nvidia-driver.conf"
PATH = "/etc/needrestart/conf.d/gpusmith-host-baseline.conf"


def machine(joined: bool = False, **seen: Any) -> dict[str, Any]:
    record = converged_record()
    record["kubernetes"]["joined"] = joined
    record["surroundings"] = seen
    return record


def plan(record: dict[str, Any], **settings: Any) -> dict[str, Any]:
    return host_baseline_plan(record, {**SETTINGS["host_baseline"], **settings})


def test_a_machine_that_nothing_else_rules_has_no_notes() -> None:
    assert surroundings.notes(parse(machine(selinux="disabled", apparmor=False))) == []


def test_everything_is_told_before_a_machine_becomes_a_node_and_not_again() -> None:
    rules: dict[str, Any] = {"selinux": "enforcing", "apparmor": True, "ufw": True}
    record = machine(**rules)
    record["services"] |= {"firewalld": RUNS, "NetworkManager": RUNS}
    told = surroundings.notes(parse(record))
    for words in (
        "SELinux is enforcing",
        "AppArmor is on",
        "lets in 10250/tcp, 10256/tcp, 30000-32767/tcp, 30000-32767/udp and those of the pod network",
        "firewalld rejects what pods send to each other",
        "ufw is on",
        "NetworkManager",
    ):
        assert any(words in note for note in told), words
    record["surroundings"]["interfaces_kept"] = True
    assert not any("NetworkManager" in note for note in surroundings.notes(parse(record)))
    record["kubernetes"]["joined"] = True
    assert surroundings.notes(parse(record)) == []


def test_needrestart_is_told_where_it_is_and_where_the_system_brings_it() -> None:
    def files(when: str, there: bool) -> list[str]:
        asked = {"when": when, "path": PATH, "content": "1;"}
        found: list[str] = plan(machine(needrestart=there), needrestart=asked)["files"]
        return found

    assert [files("installed", False), files("never", True)] == [[], []]
    assert [files("installed", True), files("always", False)] == [[PATH], [PATH]]
    assert {system: value("host_baseline", system, "__host_baseline_needrestart") for system in SYSTEMS} == {
        "Debian 12": "installed", "Debian 13": "installed", "Ubuntu 22": "always", "Ubuntu 24": "always",
        "RedHat 9": "never", "Rocky 9": "never", "Rocky 10": "never", "AlmaLinux 10": "never",
    }  # fmt: skip


def test_dracut_is_told_of_nouveau_where_it_is() -> None:
    def files(there: bool) -> list[str]:
        settings = {**SETTINGS["nvidia_driver"], "dracut_files": {DRACUT: "install_items"}}
        found: list[str] = driver_plan(machine(dracut=there), settings, LAYOUTS)["files"]
        return found

    assert [files(False), files(True)] == [[], [DRACUT]]
