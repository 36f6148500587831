"""What there is of the driver on a node that is to have none: packages, files of ours, and whether it is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from gpusmith.expect import (
    choice,
    foreign,
    kernels,
    layouts,
    packages,
    signatures,
    versions,
    wanted,
)
from gpusmith.expect.layouts import ANY_LAYOUT, Layouts, Unmet
from gpusmith.node.records import parse
from gpusmith.probe.record import Record
from gpusmith.probe.taken import NOTES
from gpusmith.wanted.node import NodeWanted

FILES = ("files", "daemon_files", "dracut_files", "fabric_files")
"""Keys of what the role adds that name files of ours."""
UNITS = ("nvidia-fabricmanager", "nvidia-persistenced")
"""Services of the driver besides ours."""


def driver(raw: Mapping[str, Any], host: NodeWanted, own: Mapping[str, Any]) -> dict[str, Any]:
    """What role nvidia_driver has to take away.

    Args:
        raw: the record.
        host: what the inventory wants of the node.
        own: of role nvidia_driver, see `driver_needs.asked_for`.

    Returns:
        due (whether there is anything), refused (why it stays), loaded, packages (with versions), others (with their own ones),
        companions (what brings the next kernel, and was held), units (that begin at boot) and files.
    """
    record = parse(raw)
    layout, node = _layout(record, host, own["layouts"]), host.name
    driver_there = wanted.driver_of(host, layout=layout)
    there = packages.of_driver(record, driver_there)
    ready = kernels.built(record)
    # Helpers have versions of their own. Without a driver they are somebody else's.
    beside = {*layout.others, *layout.helpers, *layout.subnet_manager} if there else set()
    others = sorted(ready | (beside & set(record.packages)))
    units = [name for name in (*UNITS, f"{wanted.LOADER}.service") if _at_boot(record, name)]
    files = [path for key in FILES for path in own.get(key) or () if path in record.managed_files]
    # Notes of modules that go with the packages.
    files += [NOTES] if any(path.startswith(f"{NOTES}/") for path in record.managed_files) else []
    of_set = [
        path for path in record.managed_files if PurePath(path).name.startswith(f"gpusmith-{layouts.SET}.")
    ]
    loaded = record.module.loaded_version is not None
    others_driver = _of_others(record, driver_there)
    return {
        "refused": " ".join(refused(node)) if record.kubernetes.joined else others_driver,
        "due": bool(there or others or units or files or of_set or loaded or others_driver),
        "loaded": loaded,
        "packages": there,
        "others": others,
        "companions": sorted(
            kernels.bring_next(record) if ready else signatures.to_hold(record, driver_there)
        ),
        "units": units,
        "files": files,
    }


def _layout(record: Record, host: NodeWanted, known: Layouts) -> layouts.Layout:
    """Names for the version that is there, whatever the inventory asks for."""
    version = choice.installed(record, versions.LATEST)
    if not version:
        return replace(ANY_LAYOUT, packages=())
    try:
        rows = layouts.rows_of(known, host.driver.package_layout)
        return layouts.layout(rows, version, kernels.bootable(record))
    except Unmet:
        return replace(ANY_LAYOUT, packages=())


def _of_others(record: Record, driver: wanted.Driver) -> str:
    """Why a driver stays that came past the package manager; empty if it did not.

    A module that is loaded, and of which there is no file, is what a removal leaves until the next boot.
    """
    found = [
        *foreign.installer(record, driver.node),
        *foreign.module(record, driver),
        *foreign.library(record, driver),
    ]
    return f"{found[0].cause} Nothing was removed. {found[0].next_step}" if found else ""


def _at_boot(record: Record, unit: str) -> bool:
    service = record.services.get(unit.removesuffix(".service"))
    return service is not None and service.enabled == "enabled"


def refused(node: str) -> tuple[str, str]:
    """Why the driver of a node that serves stays, and what to do."""
    return (
        f"Node '{node}' is part of a cluster, so its driver stays.",
        f"Remove the node first: 'ansible-playbook -i INVENTORY playbooks/remove_nodes.yml -l {node}'.",
    )
