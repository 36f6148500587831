"""The one reader of argument_specs: which variables there are, their types, choices and defaults."""

from __future__ import annotations

import difflib
import functools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpusmith import yaml_text
from gpusmith.paths import repo_root

PROJECT = "project"
"""Owner of the variables that belong to no role."""
PROJECT_PREFIXES = ("gpusmith_", "validation_", "gpu_upgrade_")
"""Prefixes of variables that no role owns."""
NEAREST, NEAREST_KEY = 0.6, 0.5
"""From which likeness a name is offered; of the keys of a mapping there are few."""


@dataclass(frozen=True)
class Spec:
    """What a variable, or a part of one, may be.

    Attributes:
        type: as argument_specs name it.
        default: what holds if the inventory says nothing; None if the spec states none.
        choices: the values it may have; empty for any.
        required: whether it must be given.
        element: of a list, what each entry may be; None for anything.
        options: of a mapping, its keys; empty for any.
        description: sentences, in Ansible's markup.
        owner: the role, or `PROJECT`.
        secret: whether no message shows its value.
    """

    type: str
    default: Any = None
    choices: tuple[Any, ...] = ()
    required: bool = False
    element: Spec | None = None
    options: Mapping[str, Spec] = field(default_factory=dict)
    description: tuple[str, ...] = ()
    owner: str = PROJECT
    secret: bool = False


@dataclass(frozen=True)
class Specs:
    """All variables.

    Attributes:
        variables: by name, in the order of the files.
        roles: names of the roles.
    """

    variables: Mapping[str, Spec]
    roles: tuple[str, ...] = ()

    @property
    def prefixes(self) -> tuple[str, ...]:
        """What our variables begin with: the roles' names and the project's own words."""
        return tuple(sorted({f"{role}_" for role in self.roles} | set(PROJECT_PREFIXES)))

    def of(self, owner: str) -> dict[str, Spec]:
        """The variables of a role, or of the project."""
        return {name: spec for name, spec in self.variables.items() if spec.owner == owner}


def parse(option: Mapping[str, Any], owner: str = PROJECT) -> Spec:
    """One entry of argument_specs."""
    inner = {name: parse(entry or {}, owner) for name, entry in (option.get("options") or {}).items()}
    kind, elements = str(option.get("type", "str")), option.get("elements")
    told = option.get("description") or ()
    return Spec(
        type=kind,
        default=option.get("default"),
        choices=tuple(option.get("choices") or ()),
        required=bool(option.get("required")),
        element=Spec(elements or "dict", options=inner, owner=owner)
        if kind == "list" and (elements or inner)
        else None,
        options=inner if kind == "dict" else {},
        description=(told,) if isinstance(told, str) else tuple(told),
        owner=owner,
        secret=bool(option.get("no_log")),
    )


def options_of(document: Mapping[str, Any], owner: str = PROJECT) -> dict[str, Spec]:
    """The options of all entry points of one file, by name."""
    found: dict[str, Spec] = {}
    for entry in (document.get("argument_specs") or {}).values():
        for name, option in (entry.get("options") or {}).items():
            found[name] = parse(option or {}, owner)
    return found


@functools.cache
def load(root: Path | None = None) -> Specs:
    """The specs of a checkout; of this one if none is named."""
    base = root or repo_root()
    roles = tuple(sorted(path.name for path in (base / "roles").iterdir() if path.is_dir()))
    files = {PROJECT: base / "meta" / "project_argument_specs.yml"}
    files |= {role: base / "roles" / role / "meta" / "argument_specs.yml" for role in roles}
    variables: dict[str, Spec] = {}
    for owner, path in files.items():
        if path.is_file():
            variables |= options_of(yaml_text.load(path.read_text(encoding="utf-8")) or {}, owner)
    return Specs(variables, roles)


def did_you_mean(name: str, names: Iterable[str], others: str = "") -> str:
    """Hint with the declared name that is most like the given one.

    Args:
        name: the given one.
        names: those that exist.
        others: where else they stand, or what they are; docs/variables.md if empty.
    """
    matches = difflib.get_close_matches(name, list(names), n=1, cutoff=NEAREST_KEY if others else NEAREST)
    likely = f"Did you mean '{matches[0]}'?" if matches else ""
    return f"{likely} {others}".strip() or "See docs/variables.md for the names that exist."


def form(spec: Spec) -> str:
    """How a mapping or a list is written, in YAML and in INI alike."""
    return json.dumps(_example(spec))


def _example(spec: Spec) -> Any:
    if spec.type == "dict":
        return {key: _example(part) for key, part in spec.options.items()} or {"NAME": "..."}
    if spec.type == "list":
        return [_example(spec.element) if spec.element is not None else "..."]
    return "..."
