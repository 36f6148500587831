"""The GPU nodes of a cluster that others set up: what they should be is what the cluster tells of them, and no inventory."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

from gpusmith.cluster.api import ApiRefused, Cluster, Object
from gpusmith.cluster.kubeconfig import Access
from gpusmith.cluster.views import NODES, gpu_mark, offered
from gpusmith.data.operands import EXISTING, deployed
from gpusmith.errors import InputError
from gpusmith.expect.wanted import all_models
from gpusmith.names import (
    COUNT_LABEL,
    DRIVER_LABEL,
    GPU_RESOURCE,
    INSTANCE_LABEL,
    PRODUCT_LABEL,
    SIMULATED_LABEL,
)
from gpusmith.wanted import expect_file
from gpusmith.wanted.inventory import Inventory
from gpusmith.wanted.node import NodeWanted

OF_KUBERNETES = "node.kubernetes.io/"
"""Beginning of keys of taints that tell a node's state."""
PARTS = ("driver", "containerd", "toolkit", "kubernetes")
"""Sections of roles that have an owner."""


def read(access: Access, selector: str, expect: Path | None = None) -> Inventory:
    """All of them, by one list.

    Args:
        access: the way to the cluster.
        selector: of labels, as of kubectl; empty for all nodes.
        expect: file with what they have to have.

    Raises:
        InputError: there are none, or the file is none.
        ToolError: the cluster does not answer or refuses.
    """
    wanted = expect_file.load(expect) if expect else {}
    cluster = Cluster(access)
    query = {"labelSelector": selector} if selector else {}
    try:
        nodes = cluster.items(NODES, _cut, **query)
    except ApiRefused as error:
        if error.status != HTTPStatus.BAD_REQUEST or not selector:
            raise
        raise InputError(
            f"The selector '{selector}' cannot be used: {error.message}", "Write it as for kubectl -l."
        ) from error
    if not nodes:
        chosen = f" with labels '{selector}'" if selector else ""
        raise InputError(
            f"The cluster '{cluster.host}' has no GPU nodes{chosen}: none offers GPUs, and none is labelled as a node that has"
            " some.",
            "Look at: kubectl describe nodes" if not selector else "Give another --selector.",
        )
    found = hosts(nodes, access.kubeconfig, chosen=bool(selector))
    if expect:
        found = as_pinned(found, wanted, expect.name)
    return Inventory(f"cluster {cluster.host}", selector, found, {}, chosen=access)


def as_pinned(
    found: Mapping[str, NodeWanted], wanted: Mapping[str, expect_file.Pinned], file: str
) -> dict[str, NodeWanted]:
    """What a file says of nodes counts; those that it has and the cluster lacks are nodes of the run, too."""
    like = next(iter(found.values()))
    lacking = {name: replace(like, name=name) for name in wanted if name not in found}
    return {
        name: replace(
            host,
            pinned=(pin := wanted.get(name, {"capacity": {}, "labels": {}})),
            gpu_count=expect_file.gpus(pin),
            counted_by=f"'{file}'",
        )
        for name, host in {**found, **lacking}.items()
    }


def _cut(node: Object) -> Object | None:
    """As much of a GPU node as is read here: a list of thousands has to fit into memory."""
    metadata, taints = node["metadata"], (node.get("spec") or {}).get("taints")
    kept = {
        "metadata": {"name": metadata["name"], "labels": metadata.get("labels") or {}},
        "spec": {"taints": taints or []},
        "status": {"capacity": (node.get("status") or {}).get("capacity") or {}},
    }
    return kept if has_gpus(kept) else None


def has_gpus(node: Object) -> bool:
    """Whether it offers GPUs or parts of some, or a label says that it has some."""
    return any(offered(node, "capacity").values()) or bool(gpu_mark(_labels(node)))


def hosts(nodes: Sequence[Object], kubeconfig: str = "", *, chosen: bool = False) -> dict[str, NodeWanted]:
    """What each of them should be: as its labels say, else as most of its kind are.

    Args:
        nodes: as the API has them.
        kubeconfig: for commands in advice.
        chosen: somebody chose them: a taint that all of them have may set them aside.
    """
    kinds: dict[str, Counter[int]] = {}
    for node in nodes:
        kinds.setdefault(_kind(node), Counter())[offered(node, "capacity").get(GPU_RESOURCE, 0)] += 1
    usual = {kind: _usual(counts) for kind, counts in kinds.items()}
    found = {node["metadata"]["name"]: _host(node, usual[_kind(node)], kubeconfig) for node in nodes}
    shared = () if chosen else _shared_taints(nodes)
    return {
        name: replace(host, kubernetes=replace(host.kubernetes, taints=shared))
        for name, host in found.items()
    }


def _shared_taints(nodes: Sequence[Object]) -> tuple[Mapping[str, str], ...]:
    """Those by which a cluster keeps its GPU nodes for GPU pods: all of several have them, so that they say nothing of one."""
    rows = [(node.get("spec") or {}).get("taints") or [] for node in nodes]
    keys = [{row["key"] for row in taints if not row["key"].startswith(OF_KUBERNETES)} for taints in rows]
    shared = set.intersection(*keys) if len(keys) > 1 else set[str]()
    return tuple({"key": key} for key in sorted(shared))


def _labels(node: Object) -> Mapping[str, str]:
    return node["metadata"].get("labels") or {}


def _kind(node: Object) -> str:
    """What nodes with the same GPUs have in common."""
    labels = _labels(node)
    return labels.get(PRODUCT_LABEL) or labels.get(INSTANCE_LABEL) or ""


def _usual(counts: Counter[int]) -> int:
    """How many GPUs most nodes offer that offer any; of two as frequent numbers the larger one."""
    return max(counts, key=lambda count: (count > 0, counts[count], count))


def _host(node: Object, usual: int, kubeconfig: str) -> NodeWanted:
    labels, name = _labels(node), str(node["metadata"]["name"])
    told = labels.get(COUNT_LABEL, "")
    by = "feature discovery" if told.isdigit() else "the majority of its kind"
    found = NodeWanted(name=name, managed=False, counted_by=by)
    owned: dict[str, Any] = {part: replace(getattr(found, part), owner=EXISTING) for part in PARTS}
    owners: dict[str, Any] = {row.field: EXISTING for row in deployed()}
    # No namespace is ours: whatever runs there is somebody's like any other.
    owned["operands"] = replace(found.operands, namespace="", **owners)
    owned["driver"] = replace(owned["driver"], version=labels.get(DRIVER_LABEL, ""))
    return replace(
        found,
        gpu_count=int(told) if told.isdigit() else usual,
        gpu_model=_model(labels.get(PRODUCT_LABEL, "")),
        simulated=labels.get(SIMULATED_LABEL) == "true",
        # Of several files none is that of a command.
        kubeconfig="" if os.pathsep in kubeconfig else kubeconfig,
        **owned,
    )


def _model(product: str) -> str:
    """Key of the model with a name as feature discovery writes it, without blanks; empty for one that is no row."""
    rows = all_models().items()
    named = (key for key, row in rows if product in [_label(each) for each in (row.name, *row.also_named)])
    return next(named, "")


def _label(name: str) -> str:
    return name.replace(" ", "-")
