"""How names stand in messages."""

from __future__ import annotations

from collections.abc import Sequence


def shorten(names: Sequence[str], most: int = 5) -> str:
    """The first few names in quotes, and how many more there are."""
    shown = ", ".join(f"'{name}'" for name in list(names)[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
