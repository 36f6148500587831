"""Which nodes a run of the suite tests for a driver upgrade, with which driver, and what it refuses."""

from __future__ import annotations

from typing import Any, cast

import pytest

from gpusmith.change.ledger import State
from gpusmith.cluster.api import Cluster
from gpusmith.errors import InputError
from gpusmith.names import UPGRADE
from gpusmith.suite import maintenance
from gpusmith.suite.maintenance import NONE, Maintenance
from gpusmith.wanted.inventory import Inventory
from tests.unit.hosts import VERSION, build, host_variables
from tests.unit.ledgers import ledger
from tests.unit.objects import node

WANTED = "580.200.01"
ALL = ("nodes", "cluster", "workloads")


@pytest.mark.parametrize(
    ("given", "tiers", "says"),
    [
        (("u1", None), ALL, "Option '--maintenance-id' needs '--driver-version'"),
        ((None, None, "time-slicing-1"), ALL, "'time-slicing-1' of option '--gpu-layout' is no layout"),
        ((None, None, ""), ALL, "'' of option '--gpu-layout' is no layout"),
        ((None, WANTED), ALL, "Option '--driver-version' needs '--maintenance-id'"),
        ((None, WANTED), ("nodes", "workloads"), "Option '--driver-version' needs '--maintenance-id'"),
        (("u1", "580"), ALL, "'580' of option '--driver-version' is no driver version"),
        (("u1", "latest"), ALL, "'latest' of option '--driver-version' is no driver version"),
    ],
)
def test_options_that_do_not_go_together(
    given: tuple[str | None, ...], tiers: tuple[str, ...], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        maintenance.asked(given[0], given[1], given[2] if len(given) > 2 else None, tiers)


def test_options_that_do() -> None:
    assert maintenance.asked(None, None, None, ALL) == NONE
    assert maintenance.asked("u1", WANTED, None, ALL) == Maintenance("u1", WANTED)
    assert maintenance.asked("u1", None, "whole", ALL) == Maintenance("u1", layout="whole")
    # Nothing is allocated, so nodes that serve can be looked at.
    assert maintenance.asked(None, WANTED, None, ("nodes",)) == Maintenance("", WANTED)


@pytest.fixture
def inventory() -> Inventory:
    hosts = {
        "gpu-1": host_variables(),
        **{name: host_variables() for name in ("gpu-2", "gpu-3")},
    }
    return build({"gpu_nodes": {"hosts": list(hosts)}}, hosts, "inventory", "")


def versions(inventory: Inventory) -> dict[str, str]:
    return {name: host.driver.version for name, host in inventory.hosts.items()}


def listed(monkeypatch: pytest.MonkeyPatch, **entries: str | None) -> None:
    """A cluster of these nodes, '_' for '-', with ledgers or none."""
    nodes = []
    for name, entry in entries.items():
        there = node()
        there["metadata"].update(
            name=name.replace("_", "-"), annotations={} if entry is None else {UPGRADE: entry}
        )
        nodes.append(there)

    class Lists:
        def items(self, path: str, _cut: Any = None, /) -> list[dict[str, Any]]:
            assert path == "/api/v1/nodes"
            return nodes

    monkeypatch.setattr(maintenance, "Cluster", lambda _: cast(Cluster, Lists()))


def test_only_nodes_of_the_upgrade_get_its_driver(
    inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed(monkeypatch, gpu_1=ledger(), gpu_2=ledger(run="u2"), gpu_3=None)
    made = maintenance.applied(Maintenance("u1", WANTED), inventory)
    assert versions(made) == {"gpu-1": WANTED, "gpu-2": VERSION, "gpu-3": VERSION}
    assert versions(inventory)["gpu-1"] == VERSION


@pytest.mark.parametrize("entry", [None, ledger(run="u2"), ledger(state=State.DONE), "{}"])
def test_an_upgrade_that_works_on_none_of_the_nodes_is_refused(
    inventory: Inventory, monkeypatch: pytest.MonkeyPatch, entry: str | None
) -> None:
    listed(monkeypatch, gpu_1=entry, somebody_elses=ledger())
    with pytest.raises(InputError, match=r"No node of this run is in a change of run 'u1'"):
        maintenance.applied(Maintenance("u1", WANTED), inventory)


def test_a_version_alone_is_that_of_all_nodes_and_asks_nobody(inventory: Inventory) -> None:
    assert set(versions(maintenance.applied(Maintenance("", WANTED), inventory)).values()) == {WANTED}
    assert maintenance.applied(NONE, inventory) == inventory


def test_only_nodes_of_the_change_get_its_layout(
    inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed(monkeypatch, gpu_1=ledger(change="layout change"), gpu_2=None)
    found = maintenance.applied(Maintenance("u1", layout="time-slicing-4"), inventory)
    assert {name: host.layout.name for name, host in found.hosts.items()} == {
        "gpu-1": "time-slicing-4",
        "gpu-2": "whole",
        "gpu-3": "whole",
    }
    assert versions(found) == versions(inventory)
