"""How names stand in messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby

ADDRESS = re.compile(r"(?<=connect to host )\S+|(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])")
"""An address of a machine, where a sentence is told of several."""
UUID = re.compile(r"\b(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
NUMBERED = re.compile(r"(?P<before>.*?)(?P<number>\d+)(?P<after>\D*)")
LEAST_IN_RANGE = 3


def quoted(names: Iterable[object]) -> str:
    """All names, in quotes."""
    return ", ".join(f"'{name}'" for name in names)


def shorten(names: Sequence[str], most: int = 5) -> str:
    """The first few names in quotes, and how many more there are."""
    shown = quoted(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def without_own(text: str) -> str:
    """A sentence without what no two machines share: addresses, and UUIDs of GPUs."""
    return ADDRESS.sub("ADDRESS", UUID.sub("UUID", text))


def of_many(texts: Iterable[str]) -> str:
    """What several sentences have in common, which are the same but for what no two machines share; a single one as it is."""
    found = list(dict.fromkeys(texts))
    return found[0] if len(found) == 1 else without_own(found[0])


def in_ranges(names: Sequence[str]) -> list[str]:
    """Names in their order, three and more with consecutive numbers as one: 'gpu-[01:04].example'."""
    found: list[str] = []
    for _, rows in groupby(enumerate(names), key=_place_in_run):
        run = [name for _, name in rows]
        first, last = NUMBERED.fullmatch(run[0]), NUMBERED.fullmatch(run[-1])
        if len(run) >= LEAST_IN_RANGE and first and last:
            run = [f"{first['before']}[{first['number']}:{last['number']}]{first['after']}"]
        found += run
    return found


def _place_in_run(row: tuple[int, str]) -> tuple[str, ...]:
    """The same for names that follow each other, with numbers of one width that do as well."""
    place, name = row
    parts = NUMBERED.fullmatch(name)
    if parts is None:
        return (name,)
    return parts["before"], parts["after"], str(len(parts["number"])), str(int(parts["number"]) - place)
