"""docs/checks.md is what the register says."""

from __future__ import annotations

from pathlib import Path

from gpusmith.checks import page
from gpusmith.checks.register import catalog


def test_the_page_is_the_registers() -> None:
    text = page.page()
    for row in catalog().values():
        assert (
            f"### `{row.id}`\n\n- Proves: {row.proves}.\n- Fails when: {row.fails_when}.\n- What to do: {row.do}."
            in text
        )


def test_the_page_in_the_repository_is_generated(root: Path) -> None:
    assert (root / "docs" / "checks.md").read_text() == page.page(), "run 'make docs'"
