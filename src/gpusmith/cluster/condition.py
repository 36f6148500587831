"""Whether a node is proved, as a condition of its Node, for other controllers; gpusmith itself goes by stamp and taint."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from gpusmith.cluster.api import STRATEGIC_PATCH, Cluster
from gpusmith.cluster.views import node_path
from gpusmith.names import CONDITION, STAMP_MANAGER
from gpusmith.problems import Problem

LONGEST_MESSAGE = 1024


def of_node(node: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The condition as it is; None if the node has none."""
    rows = (node.get("status") or {}).get("conditions") or []
    return next((row for row in rows if row.get("type") == CONDITION), None)


def put(cluster: Cluster, node: Mapping[str, Any], problem: Problem | None, dry_run: bool) -> bool:
    """Say that a node is proved, or why not; whether that is news.

    Args:
        cluster: the API.
        node: its Node object.
        problem: why it is not; None if it is.
        dry_run: have the API server try the change out only.
    """
    said = {
        "status": "False" if problem else "True",
        "reason": "NotProved" if problem else "Proved",
        "message": (problem.cause if problem else "A complete validation passed.")[:LONGEST_MESSAGE],
    }
    before = of_node(node) or {}
    if all(before.get(key) == value for key, value in said.items()):
        return False
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    since = before.get("lastTransitionTime") if before.get("status") == said["status"] else now
    row = {"type": CONDITION, **said, "lastHeartbeatTime": now, "lastTransitionTime": since or now}
    _patch(cluster, node, row, dry_run)
    return True


def remove(cluster: Cluster, node: Mapping[str, Any], dry_run: bool) -> bool:
    """Take it off; whether it was there."""
    if of_node(node) is None:
        return False
    _patch(cluster, node, {"type": CONDITION, "$patch": "delete"}, dry_run)
    return True


def _patch(cluster: Cluster, node: Mapping[str, Any], row: Mapping[str, Any], dry_run: bool) -> None:
    # Conditions of others stay: this kind of patch merges the list by type.
    path = f"{node_path(node['metadata']['name'])}/status"
    cluster.patch(path, {"status": {"conditions": [row]}}, STAMP_MANAGER, STRATEGIC_PATCH, dry_run)
