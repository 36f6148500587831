"""The generated reference of variables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpusmith.errors import ToolError
from gpusmith.inventory.reference import BEGIN, END, filled_in, page, section
from gpusmith.inventory.specs import load, parse
from gpusmith.paths import repo_root


def test_the_page_is_as_the_specs_say() -> None:
    path, text = page(repo_root(), load())
    assert path.read_text() == text, "run 'make docs'"


def test_every_variable_has_a_section_and_a_row_that_leads_to_it() -> None:
    _path, text = page(repo_root(), load())
    names = sorted(load().variables)
    assert re.findall(r"(?m)^\| \[`(\w+)`\]\(#\1\) ", text) == names
    assert sorted(re.findall(r"(?m)^### `(\w+)`$", text)) == names


def test_a_variable_with_choices_and_one_with_parts() -> None:
    spec = parse({"type": "str", "choices": ["off", "keep"], "default": "off", "description": "See C(swap)."})
    assert section("a", spec, spec.default) == (
        "### `a`\n\nSee `swap`.\n\nType: str; default: `'off'`; one of `'off'`, `keep`."
    )
    spec = parse({
        "type": "list", "elements": "dict", "default": [], "description": ["One.", "Two."],
        "options": {"host": {"type": "str", "required": True, "description": "Its name."}},
    })  # fmt: skip
    assert section("b", spec, spec.default) == (
        "### `b`\n\nOne. Two.\n\nType: list of dict; default: `[]`.\n\n- `host`: Its name. Type: str; required."
    )
    assert "default: `{{ inventory_hostname }}`" in section("c", parse({}), "{{ inventory_hostname }}")


def test_what_people_wrote_stays_and_a_document_without_a_place_is_named() -> None:
    text = f"# role\n\nWords.\n\n{BEGIN}\nold\n{END}\n\nMore.\n"
    assert filled_in(text, "new", Path("x")) == f"# role\n\nWords.\n\n{BEGIN}\n\nnew\n\n{END}\n\nMore.\n"
    with pytest.raises(ToolError, match="'x' has no place"):
        filled_in("# role\n", "new", Path("x"))
