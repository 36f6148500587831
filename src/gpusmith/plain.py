"""What is kept of many nodes, which mostly say the same."""

from __future__ import annotations

import sys
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, cast

T = TypeVar("T")


class Shared:
    """Values whose equal parts are in memory once: the nodes of a fleet differ by little else than names and serial numbers.

    It is for data that nobody changes later.
    """

    def __init__(self) -> None:
        self._known: dict[int, Any] = {}

    def __call__(self, value: T) -> T:
        """The value, with each part that an earlier one had as the earlier one's."""
        return cast(T, self._one(value))

    def _one(self, value: Any) -> Any:
        kind: Any = type(value)
        parts: Any = []
        if kind is str:
            return sys.intern(value)
        if kind is dict:
            value = {self._one(key): self._one(part) for key, part in value.items()}
            parts = [*value, *value.values()]
        elif kind in (list, tuple, frozenset):
            value = kind(map(self._one, value))
            parts = value
        elif is_dataclass(value):
            for name in _names(kind):
                part = self._one(getattr(value, name))
                parts.append(part)
                object.__setattr__(value, name, part)
        elif kind not in (int, float):
            return value
        # Equal parts are the same objects by now.
        key = hash((kind, *map(id, parts))) if parts else hash((kind, repr(value)))
        known = self._known.setdefault(key, value)
        return known if known == value else value


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))
