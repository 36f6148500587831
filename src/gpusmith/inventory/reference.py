"""The reference of variables in Markdown, from argument_specs. `make docs` writes it; a unit test compares."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from gpusmith import yaml_text
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


def reference(specs: Specs, defaults: Mapping[str, Any]) -> str:
    """A chapter for each owner with a section per variable, first for what belongs to no role.

    Args:
        specs: of all variables.
        defaults: what holds where a spec states no default, such as what a role works out.
    """
    chapters = []
    for owner in (PROJECT, *specs.roles):
        sections = [
            section(name, spec, _default(name, spec, defaults)) for name, spec in specs.of(owner).items()
        ]
        if sections:
            chapters += [f"## {'Variables of no role' if owner == PROJECT else owner}", *sections]
    return "\n\n".join(chapters)


def _default(name: str, spec: Spec, defaults: Mapping[str, Any]) -> Any:
    return defaults.get(name) if spec.default is None else spec.default


def table(specs: Specs, defaults: Mapping[str, Any]) -> str:
    """One row per variable of all owners, each with a link to its section."""
    rows = ["| variable | type | default | of |", "| --- | --- | --- | --- |"]
    for name, spec in sorted(specs.variables.items()):
        of = "all" if spec.owner == PROJECT else spec.owner
        told = "required" if spec.required else _short(_default(name, spec, defaults))
        rows.append(f"| [`{name}`](#{name}) | {_type(spec)} | {told} | {of} |")
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


def page(root: Path, specs: Specs) -> tuple[Path, str]:
    """The page with all variables, and what it should say."""
    path = root / "docs" / "variables.md"
    defaults: dict[str, Any] = {}
    for stated in (root / "roles").glob("*/defaults/main.yml"):
        defaults |= yaml_text.load(stated.read_text(encoding="utf-8")) or {}
    text = filled_in(path.read_text(encoding="utf-8"), reference(specs, defaults), path)
    return path, filled_in(text, table(specs, defaults), path, (TABLE_BEGIN, TABLE_END))


def main() -> int:
    """Write it if it is not as it should be."""
    path, text = page(repo_root(), load())
    if path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"written: {path.relative_to(repo_root())}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
