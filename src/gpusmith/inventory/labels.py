"""Labels and taints as the API server takes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kubernetes.utils.quantity import parse_quantity

from gpusmith.errors import Refusal
from gpusmith.wanted.offers import is_gpu

HINT = "Correct it in the inventory."
TAINT_KEYS = {"key", "value", "effect"}

# https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
# The API takes the same for keys and values of taints.
LONGEST_NAME = 63
LONGEST_PREFIX = 253
NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
NAME_WORDS = "at most 63 letters, digits, '-', '_' and '.', a letter or digit first and last"
KEY_WORDS = f"{NAME_WORDS} (before it, if wanted, a DNS name and '/')"
VALUE_WORDS = f"empty or {NAME_WORDS}"
QUOTE_IT = "a string (quote it)"


def must_be(name: str, wants: str, seen: object) -> Refusal:
    """A value that cannot be used.

    Args:
        name: the variable, with the place inside it.
        wants: what it must be.
        seen: what it is.
    """
    return Refusal(f"'{name}' must be {wants}, not {seen!r}.", HINT)


def is_key(text: object) -> bool:
    """Whether Kubernetes takes it for the key of a label or taint."""
    if not isinstance(text, str):
        return False
    prefix, slash, name = text.rpartition("/")
    if slash and (len(prefix) > LONGEST_PREFIX or not DNS_NAME.fullmatch(prefix)):
        return False
    return len(name) <= LONGEST_NAME and NAME.fullmatch(name) is not None


def is_value(text: str) -> bool:
    """Whether Kubernetes takes it for the value of a label or taint."""
    return not text or (len(text) <= LONGEST_NAME and NAME.fullmatch(text) is not None)


def _value(name: str, value: Any) -> Iterator[Refusal]:
    if not isinstance(value, str):
        yield must_be(name, QUOTE_IT, value)
    elif not is_value(value):
        yield must_be(name, VALUE_WORDS, value)


def object_name(name: str, value: Any, longest: int = LONGEST_NAME) -> Iterator[Refusal]:
    """The name of an object that the API server takes, or nothing."""
    if value is not None and not (len(value) <= longest and DNS_NAME.fullmatch(value)):
        yield must_be(
            name,
            f"at most {longest} small letters, digits, '-' and '.', a letter or digit first and last",
            value,
        )


def object_names(name: str, value: Any) -> Iterator[Refusal]:
    """Names of objects, in a list; they may be as long as DNS names."""
    for index, text in enumerate(value):
        yield from object_name(f"{name}[{index}]", text, LONGEST_PREFIX)


def label(name: str, value: Any) -> Iterator[Refusal]:
    """The value of one label, or nothing."""
    if value is not None:
        yield from _value(name, value)


def labels(name: str, value: Any) -> Iterator[Refusal]:
    """Labels that the API server takes."""
    if not isinstance(value, Mapping):
        yield must_be(name, "a mapping of keys to values", value)
        return
    for key, text in value.items():
        if not is_key(key):
            yield must_be(name, f"a mapping whose keys are {KEY_WORDS}", key)
        yield from _value(f"{name}.{key}", text)


def texts(name: str, value: Any) -> Iterator[Refusal]:
    """Annotations that the API server takes: any text, by keys as of labels."""
    if not isinstance(value, Mapping):
        yield must_be(name, "a mapping of keys to texts", value)
        return
    for key, text in value.items():
        if not is_key(key):
            yield must_be(name, f"a mapping whose keys are {KEY_WORDS}", key)
        if not isinstance(text, str):
            yield must_be(f"{name}.{key}", "a text, in quotes", text)


def _is_limit(key: Any) -> bool:
    return key in ("cpu", "memory") or (is_key(key) and "/" in key and not is_gpu(key))


def limits(name: str, value: Any) -> Iterator[Refusal]:
    """Limits of CPU, memory and devices other than GPUs, as pods have them."""
    if not isinstance(value, Mapping) or not all(map(_is_limit, value)):
        words = (
            "a mapping with the keys 'cpu' and 'memory', and resources such as 'rdma/hca' that are no GPUs"
        )
        yield must_be(name, words, value)
        return
    for key, amount in value.items():
        if not is_amount(amount):
            yield must_be(f"{name}.{key}", "an amount such as '4' or '4Gi'", amount)


def is_amount(value: Any) -> bool:
    """Whether Kubernetes takes it as a quantity, of more than nothing."""
    try:
        return not isinstance(value, bool) and parse_quantity(str(value)) > 0
    except ValueError:
        return False


def taints(name: str, value: Any) -> Iterator[Refusal]:
    """Taints that the API server takes; what effects there are, the spec knows."""
    if not isinstance(value, list | tuple):
        yield must_be(name, "a list of {key, value, effect}", value)
        return
    seen = set()
    for index, row in enumerate(value):
        place = f"{name}[{index}]"
        if not isinstance(row, Mapping) or not {"key", "effect"} <= set(row) <= TAINT_KEYS:
            yield must_be(place, "a mapping of key, effect and, if wanted, value", row)
            continue
        if not is_key(row["key"]):
            yield must_be(f"{place}.key", KEY_WORDS, row["key"])
        if row.get("value") is not None:
            yield from _value(f"{place}.value", row["value"])
        same = (str(row["key"]), str(row["effect"]))
        if same in seen:
            yield must_be(place, "the only one with its key and effect", row)
        seen.add(same)
