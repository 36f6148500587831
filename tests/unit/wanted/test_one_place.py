"""What is wanted of a node is read in one place, and made up of it in one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpusmith.paths import repo_root

ON_NODES = {"plugins/modules/driver_state.py"}
"""What runs on a node has a class of that name of its own: it drives the kernel's module."""


def calls(name: str) -> Iterator[str]:
    """Files of the product in which something of that name is called, once for each call."""
    root = repo_root()
    for path in sorted(path for folder in ("src", "plugins") for path in Path(root, folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = getattr(node, "func", None) if isinstance(node, ast.Call) else None
            if name in (getattr(called, "id", None), getattr(called, "attr", None)):
                yield str(path.relative_to(root))


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("Driver", ["src/gpusmith/expect/wanted.py"]),
        ("Baseline", ["src/gpusmith/expect/wanted.py"]),
        # Of variables as they are written: for the reader of the wanted state, and for values that tasks registered.
        ("raw_get", ["plugins/plugin_utils/variables.py"] * 2),
    ],
)
def test_it_is_called_in_one_place(name: str, places: list[str]) -> None:
    assert [path for path in calls(name) if path not in ON_NODES] == places
