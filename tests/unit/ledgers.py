"""Ledgers of driver upgrades, as a Node carries them."""

from __future__ import annotations

from typing import Any

from gpusmith.change.ledger import Ledger, State, written


def ledger(**changes: Any) -> str:
    """The annotation of a node that run 'u1' has cordoned."""
    values = {
        "run": "u1",
        "target": "580.200.01",
        "origin": "580.178.04",
        "state": State.ADMITTED,
        "since": "2026-11-22T10:00:00Z",
        "cordoned": True,
        "change": "driver upgrade",
    }
    return written(Ledger(**{**values, **changes}))
