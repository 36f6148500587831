"""Values that only Ansible can tell."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.inventory.templates import has_open, is_open, is_plain


@pytest.mark.parametrize(
    "value",
    [
        "{{ a }}",
        "{% if a %}b{% endif %}",
        {"a": ["{{ b }}"]},
        {"{{ a }}": 1},
        [{"a": {"__ansible_vault": "x"}}],
    ],
)
def test_templates_are_found_wherever_they_are(value: Any) -> None:
    assert has_open(value)
    assert not has_open({"a": ["b", 1, None, "{ c }"]})


def test_a_value_itself() -> None:
    assert is_open("{{ a }}")
    assert is_open({"__ansible_vault": "x"})
    assert not is_open(["{{ a }}"])
    assert is_plain({"a": 1})
    assert not is_plain(object())
