"""The IMEX domain of a node: written, changed and given up, and what a node that serves keeps."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.expect import forecast, plans, removal
from gpusmith.expect.files import digest
from gpusmith.expect.imex import content
from gpusmith.probe.managed import IMEX_NODES, IMEX_WRITTEN
from tests.unit.expect.test_driver import LAYOUTS, ROW, SETTINGS, ready

NODES, OTHERS = ["10.0.0.1", "10.0.0.2"], ["10.0.0.1", "10.0.0.3"]
BOTH = [IMEX_WRITTEN, IMEX_NODES]
WITH_IMEX = {"nvidia": [{**ROW, "components": {"imex": "nvidia-imex"}}]}
NOTHING = {"stop": False, "write": {}, "remove": (), "start": False, "disable": False, "due": False}

DUE = {**NOTHING, "due": True}


def node(
    listed: list[str] | None,
    runs: bool = True,
    joined: bool = False,
    ours: bool = True,
    written: list[str] | None = None,
    enabled: str = "",
) -> dict[str, Any]:
    """A node whose service has a list, and says of it what we wrote."""
    raw = ready()
    raw["packages"]["nvidia-imex"] = dict(raw["packages"]["nvidia-fabricmanager"])
    raw["kubernetes"]["joined"] = joined
    raw["services"]["nvidia-imex"] = {
        "active": "active" if runs else "inactive",
        "enabled": enabled or ("enabled" if runs else "disabled"),
    }
    if listed is not None:
        raw["managed_files"][IMEX_NODES] = digest(content(listed))
    if ours and (written or listed) is not None:
        raw["managed_files"][IMEX_WRITTEN] = digest(content(written or listed or []))
    return raw


def plan(raw: dict[str, Any], nodes: list[str], components: tuple[str, ...] = ("imex",)) -> dict[str, Any]:
    settings = {**SETTINGS, "components": list(components), "imex_nodes": nodes}
    return plans.driver(raw, settings, WITH_IMEX)


def test_the_list_has_one_address_a_line() -> None:
    assert content(NODES) == "10.0.0.1\n10.0.0.2\n"


@pytest.mark.parametrize("joined", [False, True])
def test_a_domain_as_wanted_is_left_alone(joined: bool) -> None:
    for ours in (True, False):
        found = plan(node(NODES, joined=joined, ours=ours), NODES)
        assert (found["problems"], found["kept"], found["imex"]) == ([], [], NOTHING)


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("listed", [None, OTHERS])
def test_a_service_that_does_not_run_gets_its_list_and_is_started(
    listed: list[str] | None, joined: bool
) -> None:
    found = plan(node(listed, runs=False, joined=joined), NODES)
    assert found["imex"] == {**DUE, "write": dict.fromkeys(BOTH, content(NODES)), "start": True}
    assert found["cures"] == ["files", "services"]
    assert found["files"] == BOTH
    told = forecast.of_role("nvidia_driver", found)["changes"]
    assert told["files"] == BOTH
    assert "nvidia-imex.service" in told["units"]


def test_a_service_that_runs_is_stopped_before_its_list_changes() -> None:
    found = plan(node(OTHERS), NODES)["imex"]
    assert (found["stop"], list(found["write"]), found["start"]) == (True, BOTH, True)


def test_the_order_of_the_nodes_is_part_of_the_list() -> None:
    assert plan(node(NODES[::-1]), NODES)["imex"]["write"]


@pytest.mark.parametrize(
    ("nodes", "says"), [(NODES, "with other nodes than"), ([], "does not name any more")]
)
def test_a_node_that_serves_keeps_the_list_of_a_service_that_runs(nodes: list[str], says: str) -> None:
    found = plan(node(OTHERS, joined=True), nodes)
    assert (found["problems"], found["cures"], found["files"], found["imex"]) == ([], [], [], NOTHING)
    (kept,) = found["kept"]
    assert says in kept
    assert "'systemctl stop nvidia-imex'" in kept
    # Where somebody has stopped it, no job loses anything.
    stopped = plan(node(OTHERS, joined=True, runs=False), nodes)
    assert stopped["kept"] == []
    assert stopped["imex"]["write"] or stopped["imex"]["remove"]


@pytest.mark.parametrize("runs", [True, False])
def test_what_we_wrote_leaves_the_node_with_the_inventory(runs: bool) -> None:
    found = plan(node(NODES, runs=runs), [], components=())
    assert found["imex"] == {**DUE, "stop": runs, "remove": (IMEX_NODES, IMEX_WRITTEN), "disable": runs}
    assert found["cures"] == ["files"]
    assert "list of its nodes is removed" in str(forecast.of_role("nvidia_driver", found)["changes"])


def test_a_domain_of_somebody_else_is_his() -> None:
    alone = plan(node(NODES, ours=False), [])
    assert (alone["problems"], alone["imex"]) == ([], NOTHING)
    # As a scheduler's, which has written its own since.
    rewritten = plan(node(OTHERS, written=NODES), [])
    assert rewritten["imex"] == {**DUE, "remove": (IMEX_WRITTEN,)}


def test_without_nodes_no_boot_starts_the_service() -> None:
    idle = node(None, runs=False, enabled="enabled", joined=True)
    found = plan(idle, [])
    assert (found["imex"], found["cures"]) == ({**DUE, "disable": True}, ["services"])
    # What the inventory does not declare is not ours to switch off.
    assert plan(idle, [], components=())["problems"] == []
    assert plan(node(None, runs=False, enabled="masked"), [])["problems"] == []


def test_a_list_without_its_component_is_refused() -> None:
    refused = plan(ready(), NODES, components=())["refused"]
    assert "'nvidia_driver_components' has no 'imex'" in refused
    assert plans.driver(ready(), {**SETTINGS, "imex_nodes": []}, LAYOUTS)["refused"] == ""


@pytest.mark.parametrize(
    ("made", "files"),
    [
        (node(NODES), [IMEX_NODES, IMEX_WRITTEN]),
        (node(NODES, ours=False), []),
        (node(OTHERS, written=NODES), [IMEX_WRITTEN]),
    ],
)
def test_a_removal_of_the_driver_takes_our_list_along(made: dict[str, Any], files: list[str]) -> None:
    asked = {"node": "gpu-1", "version": SETTINGS["version"], "unit": "x.service", "files": []}
    found = removal.driver(made, asked, WITH_IMEX)
    assert found["files"] == files
    assert "nvidia-imex" in found["units"]
    assert "nvidia-imex" in found["packages"]
