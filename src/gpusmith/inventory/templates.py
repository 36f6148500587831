"""Values that only Ansible can tell: templates, and what is encrypted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpusmith.errors import Refusal

VAULT = "__ansible_vault"


class UnfilledError(Exception):
    """A template that Ansible cannot fill in, with its reason.

    Attributes:
        later: something in it is not known, and may be once a host was asked.
    """

    def __init__(self, reason: str, later: bool = True) -> None:
        super().__init__(reason)
        self.later = later


def unfilled(name: str, why: object) -> Refusal:
    """What is said of such a template.

    Args:
        name: the variable.
        why: in Ansible's words; its advice on its own options is left out.
    """
    reason = str(why).partition(" Use -v")[0].strip().rstrip(".")
    return Refusal(
        f"The template of '{name}' cannot be filled in: {reason}.", "Correct the template, or what it names."
    )


def is_open(value: object) -> bool:
    """Whether a value itself is a template, or encrypted as 'ansible-inventory' prints it."""
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    return isinstance(value, Mapping) and VAULT in value


def has_open(value: Any) -> bool:
    """Whether that goes for the value or anything inside it."""
    if is_open(value):
        return True
    if isinstance(value, Mapping):
        return any(has_open(part) for pair in value.items() for part in pair)
    return any(map(has_open, value)) if isinstance(value, list | tuple) else False


def is_plain(value: object) -> bool:
    """Whether a value is one that YAML writes; Ansible's own objects, such as encrypted strings, are none."""
    return value is None or isinstance(value, str | int | float | bool | list | tuple | Mapping)
