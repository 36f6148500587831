"""'kubernetes_node_kubelet_config': fields of KubeletConfiguration, since the kubelet finds out too late."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gpusmith.data import kubelet
from gpusmith.errors import Refusal
from gpusmith.inventory.kubelet_rules import together
from gpusmith.inventory.labels import must_be

VARIABLE = "kubernetes_node_kubelet_config"
NEAREST = 0.6

# https://pkg.go.dev/time#ParseDuration, https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
DURATION = re.compile(r"[-+]?(?:0|(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|ms|s|m|h))+)")
QUANTITY = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]+)?")


def _whole(low: int, high: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_quantity(value: Any) -> bool:
    """Whether Kubernetes takes a value as an amount of CPU or memory."""
    return _number(value) or (isinstance(value, str) and QUANTITY.fullmatch(value) is not None)


def _duration(value: Any) -> bool:
    return isinstance(value, str) and DURATION.fullmatch(value) is not None


WHOLE = "a whole number without quotes"
DURATION_WORDS = 'a duration in quotes with a unit, as "30s" or "1h30m"'
TYPES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "string": (lambda value: isinstance(value, str), 'a string (in quotes, as "10%")'),
    "bool": (lambda value: isinstance(value, bool), "true or false, without quotes"),
    "int32": (_whole(-(2**31), 2**31 - 1), WHOLE),
    "int64": (_whole(-(2**63), 2**63 - 1), WHOLE),
    "uint32": (_whole(0, 2**32 - 1), f"{WHOLE}, from 0"),
    "float64": (_number, "a number without quotes"),
    "duration": (_duration, DURATION_WORDS),
    # Of component-base alone.
    "nanoseconds": (lambda value: _duration(value) or _whole(0, 2**63 - 1)(value), DURATION_WORDS),
    "quantity": (is_quantity, 'a quantity, as "512Mi"'),
    "any": (lambda _value: True, "anything"),
}
"""By name in the table: what fits, and how to write it. Nothing is converted: the kubelet does not either."""


def settings(name: str, value: Any) -> Iterator[Refusal]:
    """Fields of KubeletConfiguration: known, of their type, fitting together, and not ones that are set elsewhere."""
    if value is None:
        return
    table = kubelet.load()
    if not isinstance(value, Mapping):
        yield must_be(name, "a mapping of fields of KubeletConfiguration", value)
        return
    for key in value:
        if key in table.ours:
            message = f"'{name}' sets '{key}', which is not the inventory's to set: {table.ours[key]}."
            yield Refusal(message, f"Take '{key}' out of it.")
    rest = {key: entry for key, entry in value.items() if key not in table.ours}
    wrong = list(_object(table, name, "", table.fields, rest))
    yield from wrong or together(name, rest)


def _object(
    table: kubelet.KubeletTable, name: str, place: str, fields: Mapping[str, str], value: Mapping[Any, Any]
) -> Iterator[Refusal]:
    where = f"{name}.{place}" if place else name
    for key, entry in value.items():
        if key in fields:
            # Of a null the kubelet makes its own default.
            if entry is not None:
                yield from _value(table, name, f"{place}.{key}" if place else str(key), fields[key], entry)
        else:
            message = f"'{where}' has '{key}', which is no field of the kubelet's configuration."
            yield Refusal(message, _nearest(str(key), fields))


def _nearest(key: str, names: Mapping[str, str]) -> str:
    lower = {name.lower(): name for name in names}
    found = difflib.get_close_matches(key.lower(), lower, n=1, cutoff=NEAREST)
    if found:
        return f"Did you mean '{lower[found[0]]}'?"
    return "See 'KubeletConfiguration' in https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/."


def _value(table: kubelet.KubeletTable, name: str, place: str, kind: str, value: Any) -> Iterator[Refusal]:
    where = f"{name}.{place}"
    outer, _of, inner = kind.partition(" of ")
    if outer == "list":
        if not isinstance(value, list | tuple):
            yield must_be(where, "a list", value)
            return
        for index, entry in enumerate(value):
            yield from _value(table, name, f"{place}[{index}]", inner, entry)
    elif outer == "map" or kind in table.objects:
        if not isinstance(value, Mapping):
            yield must_be(where, "a mapping", value)
        elif outer == "map":
            yield from _map(table, name, place, inner, value)
        else:
            yield from _object(table, name, place, table.objects[kind], value)
    else:
        fits, words = TYPES[kind]
        allowed = table.choices.get(place)
        if not fits(value):
            yield must_be(where, words, value)
        elif allowed and value not in allowed:
            yield must_be(where, f"one of {', '.join(map(repr, allowed))}", value)


def _map(
    table: kubelet.KubeletTable, name: str, place: str, kind: str, value: Mapping[Any, Any]
) -> Iterator[Refusal]:
    where, known = f"{name}.{place}", table.choices.get(place)
    for key, entry in value.items():
        if not isinstance(key, str):
            yield must_be(where, "a mapping whose keys are strings", key)
        elif known and key not in known:
            message = f"'{where}' has '{key}', which the kubelet does not know there."
            yield Refusal(message, _nearest(key, dict.fromkeys(known, "")))
        else:
            yield from _value(table, name, f"{place}.{key}", kind, entry)


def too_new(config: Any, version: Any) -> list[Refusal]:
    """Fields that came with a later Kubernetes than the node's.

    Args:
        config: `VARIABLE`'s value.
        version: of the node's kubelet.
    """
    numbers = re.match(r"([0-9]+)\.([0-9]+)", version) if isinstance(version, str) else None
    if numbers is None or not isinstance(config, Mapping):
        return []
    since = kubelet.load().since
    minor = tuple(map(int, numbers.groups()))
    return [
        Refusal(
            f"'{VARIABLE}' has '{key}', which the kubelet has since Kubernetes {since[key]}; the node gets {version}.",
            f"Take '{key}' out of it, or give the node a newer 'kubernetes_node_version'.",
        )
        for key in config
        if key in since and minor < tuple(map(int, since[key].split(".")))
    ]
