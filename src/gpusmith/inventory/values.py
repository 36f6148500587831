"""Values by the types of argument_specs: what fits, and what it means. Playbooks and suite take the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from gpusmith.errors import Refusal
from gpusmith.inventory.specs import Spec, did_you_mean, form
from gpusmith.inventory.templates import is_open, is_plain
from gpusmith.wording import quoted

# Ansible's own words (ansible.module_utils.parsing.convert_bool), in any case; the numbers 1 and 0 are among them.
TRUE_WORDS = frozenset({"y", "yes", "t", "true", "on", "1"})
FALSE_WORDS = frozenset({"n", "no", "f", "false", "off", "0"})
REMOVED_KEYS: Mapping[str, str] = {
    f"{role}_repository.folder": "Make a mirror of the folder, as docs/provisioning.md says, and name it by 'uris'."
    for role in ("nvidia_driver", "cuda_toolkit")
}
"""Keys of earlier releases, and what to do."""


def truth(value: object) -> bool | None:
    """The truth value that a value stands for; None if it stands for none."""
    if not isinstance(value, str | int):
        return None
    word = str(value).lower()
    return None if word not in TRUE_WORDS | FALSE_WORDS else word in TRUE_WORDS


def whole(value: object) -> int | None:
    """The whole number that a value stands for, in quotes or with '.0' as well; None if it stands for none."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    try:
        return int(value)
    except ValueError:
        return None


def number(value: object) -> float | None:
    """The finite number that a value stands for, in quotes as well; None if it stands for none."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        found = float(value)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


SCALARS: Mapping[str, Callable[[object], Any]] = {
    "str": _text,
    "path": _text,
    "bool": truth,
    "int": whole,
    "float": number,
}
"""By type, what a value stands for; None if it does not fit. Without Ansible's silent conversions that lose something."""


def fits(kind: str, value: Any) -> bool:
    """Whether a value is of a type of argument_specs."""
    if kind in SCALARS:
        return SCALARS[kind](value) is not None
    if kind == "list":
        return isinstance(value, list | tuple)
    return isinstance(value, Mapping) if kind == "dict" else True


def convert(spec: Spec, value: Any) -> Any:
    """What a value means that `check` let pass."""
    if spec.type in SCALARS:
        return SCALARS[spec.type](value)
    if spec.type == "list" and spec.element is not None:
        return [convert(spec.element, element) for element in value]
    if spec.type == "dict" and spec.options:
        return {key: convert(spec.options[key], entry) for key, entry in value.items() if entry is not None}
    return value


def check(name: str, spec: Spec, value: Any) -> list[Refusal]:
    """Type and choices of one value.

    Args:
        name: variable, with the place inside it for nested ones.
        spec: what it may be.
        value: as the inventory has it; what is empty or only Ansible can tell is left to the roles.
    """
    if value is None or is_open(value) or not is_plain(value):
        return []
    if not fits(spec.type, value):
        return [Refusal(f"Variable '{name}' is {_kind(value)} {value!r}.", _how_to_write(spec, value))]
    if spec.choices and value not in spec.choices:
        allowed = ", ".join(map(repr, spec.choices))
        return [Refusal(f"Variable '{name}' is '{value}'.", f"It must be one of {allowed}.")]
    found: list[Refusal] = []
    if spec.type == "list" and spec.element is not None:
        for index, element in enumerate(value):
            found += check(f"{name}[{index}]", spec.element, element)
            if element is None:
                found.append(
                    Refusal(f"Variable '{name}[{index}]' is empty.", "Fill it in, or take the '-' out.")
                )
    elif spec.type == "dict" and spec.options:
        for key, entry in value.items():
            if key in spec.options:
                found += check(f"{name}.{key}", spec.options[key], entry)
            else:
                message = f"Variable '{name}' has no key '{key}'."
                keys = f"Its keys are {quoted(spec.options)}."
                advice = REMOVED_KEYS.get(f"{name}.{key}") or did_you_mean(str(key), spec.options, keys)
                found.append(Refusal(message, advice))
        found += [
            Refusal(f"Variable '{name}' lacks the key '{key}'.", "Give it in the inventory.")
            for key, part in spec.options.items()
            if part.required and value.get(key) is None
        ]
    return found


MAPPING_OR_LIST = {"dict": "a mapping", "list": "a list"}


def _how_to_write(spec: Spec, value: Any) -> str:
    if spec.type == "str" and isinstance(value, bool | int | float):
        written = value if type(value) is int else "..."
        lost = "it is a truth value" if isinstance(value, bool) else "digits get lost"
        # Of a host's line Ansible takes the quotes off, and reads what is left as Python.
        return f'Write it in quotes, "{written}" (in a host\'s line of an INI file, \'"{written}"\'); without them {lost}.'
    if spec.type in MAPPING_OR_LIST:
        return f"It must be {MAPPING_OR_LIST[spec.type]}, as in {form(spec)}."
    return f"It must be of type '{spec.type}'."


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "the truth value"
    if isinstance(value, int | float):
        return "the number"
    if isinstance(value, str):
        return "the text"
    return "the mapping" if isinstance(value, Mapping) else "the list"
