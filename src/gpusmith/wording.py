"""How names stand in messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

ADDRESS = re.compile(r"(?<=connect to host )\S+|(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])")
"""An address of a machine, where a sentence is told of several."""


def quoted(names: Iterable[object]) -> str:
    """All names, in quotes."""
    return ", ".join(f"'{name}'" for name in names)


def shorten(names: Sequence[str], most: int = 5) -> str:
    """The first few names in quotes, and how many more there are."""
    shown = quoted(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def of_many(texts: Iterable[str]) -> str:
    """What several sentences have in common, which are the same but for addresses; a single one as it is."""
    found = list(dict.fromkeys(texts))
    return found[0] if len(found) == 1 else ADDRESS.sub("ADDRESS", found[0])
