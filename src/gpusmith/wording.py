"""How names stand in messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def quoted(names: Iterable[object]) -> str:
    """All names, in quotes."""
    return ", ".join(f"'{name}'" for name in names)


def shorten(names: Sequence[str], most: int = 5) -> str:
    """The first few names in quotes, and how many more there are."""
    shown = quoted(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
