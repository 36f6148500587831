"""The reference of variables in Markdown, from argument_specs. `make docs` writes it; a unit test compares."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from gpusmith.errors import ToolError
from gpusmith.inventory.specs import PROJECT, Spec, Specs, load
from gpusmith.inventory.templates import is_open
from gpusmith.paths import repo_root

BEGIN = "<!-- variables: written by 'make docs' from argument_specs -->"
END = "<!-- end of variables -->"
TABLE_BEGIN = "<!-- table of all variables: written by 'make docs' from argument_specs -->"
TABLE_END = "<!-- end of the table -->"
SHORT = 48
CODE = re.compile(r"\b[CIBV]\(([^)]*)\)")


def _inline(value: Any) -> str:
    """A value as YAML of one line."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10**6, sort_keys=False)
    return f"`{text.strip().removesuffix('...').strip()}`"


def _type(spec: Spec) -> str:
    return f"{spec.type} of {spec.element.type}" if spec.element is not None else spec.type


def _about(spec: Spec) -> str:
    return CODE.sub(r"`\1`", " ".join(spec.description))


def _facts(spec: Spec, default: Any) -> Iterator[str]:
    yield f"Type: {_type(spec)}"
    if spec.required:
        yield "required"
    elif default is not None:
        # A template is easier to read without the quotes of YAML.
        yield f"default: `{default}`" if is_open(default) else f"default: {_inline(default)}"
    if spec.choices:
        yield f"one of {', '.join(map(_inline, spec.choices))}"


def _parts(spec: Spec) -> Iterator[str]:
    inner = spec.element.options if spec.element is not None else spec.options
    for key, part in inner.items():
        told = "; ".join(_facts(part, part.default))
        yield f"- `{key}`: {_about(part)} {told}."


def section(name: str, spec: Spec, default: Any) -> str:
    """A variable: its name, what it is for, type, default, choices, and its parts if it has any."""
    parts = list(_parts(spec))
    lines = [f"### `{name}`", "", _about(spec), "", f"{'; '.join(_facts(spec, default))}."]
    return "\n".join([*lines, *(["", *parts] if parts else [])])


def reference(variables: Mapping[str, Spec], defaults: Mapping[str, Any]) -> str:
    """A section per variable.

    Args:
        variables: specs by name.
        defaults: what holds where a spec states no default, such as what a role works out.
    """
    parts = [
        section(name, spec, defaults.get(name) if spec.default is None else spec.default)
        for name, spec in variables.items()
    ]
    return "\n\n".join(["## Variables", *(parts or ["The role has no variables of its own."])])


def table(specs: Specs, defaults: Mapping[str, Any]) -> str:
    """One row per variable of all owners, each with a link to its section."""
    rows = ["| variable | type | default | of |", "| --- | --- | --- | --- |"]
    for name, spec in sorted(specs.variables.items()):
        page = "" if spec.owner == PROJECT else f"../roles/{spec.owner}/README.md"
        of = "all" if spec.owner == PROJECT else spec.owner
        default = defaults.get(name) if spec.default is None else spec.default
        told = "required" if spec.required else _short(default)
        rows.append(f"| [`{name}`]({page}#{name}) | {_type(spec)} | {told} | {of} |")
    return "\n".join(rows)


def _short(default: Any) -> str:
    """A default in a table cell; long and templated ones are in the variable's section."""
    if default is None:
        return ""
    if is_open(default):
        return "worked out"
    text = _inline(default).replace("|", "\\|")
    return text if len(text) <= SHORT else "see there"


def filled_in(text: str, generated: str, path: Path, markers: tuple[str, str] = (BEGIN, END)) -> str:
    """A document with the generated part between its markers.

    Raises:
        ToolError: the markers are not there.
    """
    first, last = markers
    before, begin, rest = text.partition(first)
    _old, end, after = rest.partition(last)
    if not begin or not end:
        raise ToolError(f"'{path}' has no place for its variables.", f"Put '{first}' and '{last}' into it.")
    return f"{before}{first}\n\n{generated}\n\n{last}{after}"


def documents(root: Path, specs: Specs) -> dict[Path, str]:
    """Every document with variables, as it should be."""
    found = {}
    everywhere: dict[str, Any] = {}
    for owner in (*specs.roles, PROJECT):
        path = root / "docs" / "variables.md" if owner == PROJECT else root / "roles" / owner / "README.md"
        stated = root / "roles" / owner / "defaults" / "main.yml"
        defaults = yaml.safe_load(stated.read_text(encoding="utf-8")) if stated.is_file() else None
        everywhere |= defaults or {}
        generated = reference(specs.of(owner), defaults or {})
        found[path] = filled_in(path.read_text(encoding="utf-8"), generated, path)
    # The project's own page comes last.
    found[path] = filled_in(found[path], table(specs, everywhere), path, (TABLE_BEGIN, TABLE_END))
    return found


def main() -> int:
    """Write what is not as it should be."""
    for path, text in documents(repo_root(), load()).items():
        if path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"written: {path.relative_to(repo_root())}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
