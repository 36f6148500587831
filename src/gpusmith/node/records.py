"""The probe's answer, plain JSON, as the dataclasses of `gpusmith.probe`."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from functools import cache
from typing import Any, TypeVar

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


@cache
def _types(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def load(kind: type[T], data: Mapping[str, Any]) -> T:
    """A dataclass of plain data; keys that it does not have are ignored, null means the field's default.

    Raises:
        KeyError: a field without default is missing.
    """
    hints, values = _types(typing.cast(Any, kind)), {}
    for field in fields(kind):  # type: ignore[arg-type]
        # A trailing underscore, as that of `class_`, is only Python's.
        key = field.name.rstrip("_")
        given = data.get(key)
        if given is None and (field.default is not MISSING or field.default_factory is not MISSING):
            continue
        if key not in data:
            raise KeyError(f"{kind.__name__}.{key}")
        values[field.name] = _value(hints[field.name], given)
    return kind(**values)


def _value(kind: Any, value: Any) -> Any:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        if value is None:
            return None
        return _value(next(part for part in inner if part is not types.NoneType), value)
    if is_dataclass(kind) and isinstance(kind, type):
        return load(kind, value)
    if origin is tuple:
        return tuple(_value(inner[0], row) for row in value)
    if origin is frozenset:
        return frozenset(value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {key: _value(inner[1], row) for key, row in value.items()}
    return value
