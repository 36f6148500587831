"""Testing nodes in the middle of a change: which ones, although they are cordoned, with which driver and which layout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpusmith.cluster.api import Cluster
from gpusmith.cluster.views import NODES
from gpusmith.errors import InputError
from gpusmith.expect.versions import FULL_DRIVER
from gpusmith.names import UPGRADE
from gpusmith.upgrade import unfinished
from gpusmith.wanted import layouts
from gpusmith.wanted.inventory import Inventory
from gpusmith.wanted.node import NodeWanted

ID, VERSION, LAYOUT = "--maintenance-id", "--driver-version", "--gpu-layout"


@dataclass(frozen=True)
class Maintenance:
    """What a run is told of a change; nothing by default.

    Attributes:
        id: of the change's run, whose cordons do not keep this run off; empty if there is none.
        driver_version: that the nodes must have, whatever the inventory says; empty if the inventory's counts.
        layout: name of the layout that they must have, likewise.
    """

    id: str = ""
    driver_version: str = ""
    layout: str = ""


NONE = Maintenance()


def asked(run: str | None, version: str | None, layout: str | None, tiers: Sequence[str]) -> Maintenance:
    """The values of these options.

    Args:
        run: of --maintenance-id; None if it is not given.
        version: of --driver-version; None if it is not given.
        layout: of --gpu-layout; None if it is not given.
        tiers: that the suite runs.

    Raises:
        InputError: they do not go together.
    """
    if run is not None and version is None and layout is None:
        raise InputError(
            f"Option '{ID}' needs '{VERSION}' or '{LAYOUT}', what the change has put on its nodes.",
            "Give both, or none.",
        )
    if layout is not None and layouts.named(layout) is None:
        raise InputError(
            f"'{layout}' of option '{LAYOUT}' is no layout.", "Give 'whole', or one such as 'time-slicing-4'."
        )
    if version is not None and not FULL_DRIVER.match(version):
        raise InputError(
            f"'{version}' of option '{VERSION}' is no driver version.", "Give a full one, such as 580.178.04."
        )
    if version is not None and run is None and "workloads" in tiers:
        raise InputError(
            f"Option '{VERSION}' needs '{ID}', the ID of the upgrade's run that cordoned the nodes.",
            "Give both, or none; '--tier nodes' alone can look at nodes of another driver than the inventory's.",
        )
    return Maintenance(run or "", version or "", layout or "")


def applied(maintenance: Maintenance, inventory: Inventory) -> Inventory:
    """The inventory, with the change's driver and layout for the nodes that it is about.

    Raises:
        InputError: the change works on none of them.
        ToolError: the cluster does not answer or refuses.
    """
    if not maintenance.id:
        return _changed(inventory, maintenance, inventory.hosts)
    nodes = Cluster(inventory.access).items(NODES)
    return _changed(inventory, maintenance, _hosts(inventory, maintenance.id, nodes))


def _hosts(inventory: Inventory, run: str, nodes: Iterable[Mapping[str, Any]]) -> list[str]:
    there = {str(node["metadata"]["name"]): node for node in nodes}
    found = [
        name
        for name, host in inventory.hosts.items()
        if unfinished.of_run(there.get(host.node_name, {}), run)
    ]
    if not found:
        raise InputError(
            f"No node of this run is in a change of run '{run}' ('{ID}').",
            f"Look at annotation '{UPGRADE}' of the nodes: the change may have ended, or another run goes on with it.",
        )
    return found


def _having(node: NodeWanted, maintenance: Maintenance) -> NodeWanted:
    version, layout = maintenance.driver_version, layouts.named(maintenance.layout)
    node = node.with_driver(version) if version else node
    return node.with_layout(layout) if layout else node


def _changed(inventory: Inventory, maintenance: Maintenance, names: Iterable[str]) -> Inventory:
    others = {name: _having(inventory.hosts[name], maintenance) for name in names}
    return replace(inventory, hosts={**inventory.hosts, **others})
