"""What everybody else does about a node whose driver upgrade is not finished: the suite tests it, playbooks leave it alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpusmith.upgrade import ledger
from gpusmith.upgrade.ledger import Ledger, Unreadable

Node = Mapping[str, Any]


def of_run(node: Node, run: str) -> Ledger | None:
    """The unfinished ledger that a run wrote; None if the node has another one, or none.

    Args:
        node: its Node object; the annotations are enough.
        run: ID of the run, not empty.
    """
    try:
        found = ledger.read(node)
    except Unreadable:
        return None
    return found if found is not None and run and found.run == run and not found.finished else None
