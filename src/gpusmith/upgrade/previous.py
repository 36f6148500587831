"""The driver that a node's last upgrade replaced: an annotation of the Node, for rollback_driver.yml."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gpusmith.change import ledger as ledgers
from gpusmith.change.ledger import Ledger
from gpusmith.names import PREVIOUS_DRIVER


def read(node: Mapping[str, Any]) -> dict[str, Any]:
    """With `version` and `flavour`; empty if the node remembers none.

    Args:
        node: its Node object.
    """
    text = ((node.get("metadata") or {}).get("annotations") or {}).get(PREVIOUS_DRIVER, "")
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def remembered(entry: Ledger) -> dict[str, str | None]:
    """What a node remembers once an upgrade is done: nothing after a rollback, or the next one would bring back what was left."""
    if entry.rollback:
        return {PREVIOUS_DRIVER: None}
    found = {"version": entry.origin, "flavour": entry.flavour, "replaced": ledgers.now()}
    return {PREVIOUS_DRIVER: json.dumps(found, sort_keys=True)}
