"""What everybody else does about a node whose change is not finished: the suite tests it, playbooks leave it alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpusmith.change import ledger
from gpusmith.change.ledger import Ledger, Unreadable
from gpusmith.errors import Refusal
from gpusmith.expect import steps
from gpusmith.names import LAYOUT_CHANGE

Node = Mapping[str, Any]


def of_run(node: Node, run: str) -> Ledger | None:
    """The unfinished ledger that a run wrote; None if the node has another one, or none.

    Args:
        node: its Node object; the annotations are enough.
        run: ID of the run, not empty.
    """
    found = open_one(node)
    return found if found is not None and run and found.run == run else None


def open_one(node: Node) -> Ledger | None:
    """The unfinished ledger of a node; None if it has none, or none that can be read."""
    try:
        found = ledger.read(node)
    except Unreadable:
        return None
    return None if found is None or found.finished else found


def refusal(host: str, node: Node) -> Refusal | None:
    """Why a playbook leaves a node alone, and what finishes its upgrade; None if it need not.

    Args:
        host: its name in the inventory.
        node: its Node object.
    """
    why, name = ledger.unfinished(node), str(node["metadata"]["name"])
    if not why:
        return None
    found = open_one(node)
    if found is not None and found.change == LAYOUT_CHANGE:
        step = steps.finish_layout(host, name)
    else:
        step = steps.finish_upgrade(
            host, name, found.target if found else "", found is not None and found.rollback
        )
    return Refusal(f"Node '{name}': {why.rstrip('.')}.", step)
