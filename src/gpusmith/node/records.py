"""The probe's answer, plain JSON, as the dataclasses of `gpusmith.probe`."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from enum import Enum
from functools import cache
from typing import Any, NamedTuple, TypeVar

from gpusmith.errors import ToolError
from gpusmith.probe.record import SCHEMA, Record

T = TypeVar("T")


def parse(raw: Mapping[str, Any]) -> Record:
    """The typed view.

    Raises:
        ToolError: not a record of this schema.
    """
    if raw.get("schema") != SCHEMA:
        raise ToolError(
            f"The probe answered with schema '{raw.get('schema')}', not '{SCHEMA}'.",
            "Use suite and probe of one checkout.",
        )
    try:
        record = load(Record, raw)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ToolError(
            f"The probe's record has a hole that the schema does not allow: {error!r}.",
            "Report this with the record.",
        ) from error
    gpus = tuple(gpu.with_gaps() for gpu in record.nvml.gpus)
    return replace(record, nvml=replace(record.nvml, gpus=gpus))


class _Field(NamedTuple):
    name: str
    key: str
    has_default: bool
    read: Callable[[Any], Any]


@cache
def _fields(kind: Any) -> tuple[_Field, ...]:
    """Cached per dataclass: a controller loads the same few for each node and role."""
    hints = typing.get_type_hints(kind)
    return tuple(
        _Field(
            field.name,
            # A trailing underscore, as that of `class_`, is only Python's.
            field.name.rstrip("_"),
            field.default is not MISSING or field.default_factory is not MISSING,
            _reader(hints[field.name]),
        )
        for field in fields(kind)
    )


def load(kind: type[T], data: Mapping[str, Any]) -> T:
    """A dataclass of plain data; keys that it does not have are ignored, null means the field's default.

    Raises:
        KeyError: a field without default is missing.
    """
    values = {}
    for field in _fields(typing.cast(Any, kind)):
        given = data.get(field.key)
        if given is None and field.has_default:
            continue
        if given is None and field.key not in data:
            raise KeyError(f"{kind.__name__}.{field.key}")
        values[field.name] = field.read(given)
    return kind(**values)


def _as_it_is(value: Any) -> Any:
    return value


def _reader(kind: Any) -> Callable[[Any], Any]:
    """What makes a value of a field's type."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        part = _reader(next(one for one in inner if one is not types.NoneType))
        return part if part is _as_it_is else lambda value: None if value is None else part(value)
    if is_dataclass(kind) and isinstance(kind, type):
        _fields(kind)
        return lambda value: load(kind, value)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    if origin is tuple:
        part = _reader(inner[0])
        return tuple if part is _as_it_is else lambda value: tuple(map(part, value))
    if origin is frozenset:
        return frozenset
    if isinstance(origin, type) and issubclass(origin, Mapping):
        part = _reader(inner[1])
        return lambda value: {key: part(row) for key, row in value.items()}
    return _as_it_is


# Worked out before ansible-playbook forks a worker for each host and task.
_fields(Record)
