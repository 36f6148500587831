"""The catalog of checks."""

from __future__ import annotations

from pathlib import Path

from gpusmith.catalog import CATALOG


def test_document_lists_the_catalog(root: Path) -> None:
    page = (root / "docs" / "validation.md").read_text()
    for check in CATALOG.values():
        assert f"| `{check.id}`{'' if check.per_node else ' (once)'} | {check.proves} |" in page
