"""gpusmith.change knows no driver: whatever is changed comes through the protocol `Change`."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from gpusmith.paths import repo_root

FILES = sorted((repo_root() / "src/gpusmith/change").glob("*.py"))
OF_DRIVERS = ("gpusmith.upgrade", "gpusmith.expect.driver", "gpusmith.built")


def _words(tree: ast.AST) -> set[str]:
    """All names and texts of a file, imports and documentation included."""
    found: set[str] = set()
    for node in ast.walk(tree):
        for name in ("id", "attr", "name", "arg", "module", "value"):
            text = getattr(node, name, None)
            if isinstance(text, str):
                found.add(text)
        if isinstance(node, ast.ImportFrom):
            assert not node.level, "relative imports hide where a name comes from"
            found |= {f"{node.module}.{each.name}" for each in node.names}
    return found


def test_there_is_something_to_look_at() -> None:
    assert {"steps.py", "protocol.py", "ledger.py", "budget.py"} <= {path.name for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_driver_is_named(path: Path) -> None:
    words = _words(ast.parse(path.read_text()))
    assert [word for word in words if "driver" in word.lower() or word.startswith(OF_DRIVERS)] == []
