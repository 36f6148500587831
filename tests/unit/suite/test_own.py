"""Checks of a site's own: files beside the inventory, and packages."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from gpusmith.checks import register
from gpusmith.checks.findings import Outcome
from gpusmith.checks.register import catalog
from gpusmith.errors import InputError
from gpusmith.suite import own
from gpusmith.suite.evaluation import evaluate
from tests.unit.checks.world import World

FILE = """from gpusmith.checks.register import check
from gpusmith.problems import Problem


@check("nodes.rack", place=500, proves="p", fails_when="f", do="d")
def rack(facts):
    return [Problem(f"Node '{facts.host.name}' is in no rack.", "Put it into one.")]
"""


@pytest.fixture(autouse=True)
def register_open(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    catalog()
    monkeypatch.setattr(register, "_CHECKS", dict(register._CHECKS))
    register._in_order.cache_clear()
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]
    monkeypatch.undo()
    register._in_order.cache_clear()


def written(folder: Path, text: str) -> list[str]:
    plugins = folder / "validation_plugins"
    plugins.mkdir()
    (plugins / "site.py").write_text(text)
    return [str(folder)]


def test_a_file_beside_the_inventory_adds_a_check(tmp_path: Path) -> None:
    folders = written(tmp_path, FILE)
    own.load(folders)
    own.load(folders)  # as a second run in one process does
    found = evaluate(catalog()["nodes.rack"], "gpu-1", World().sources())
    assert (found.outcome, found.cause) == (Outcome.FAILED, "Node 'gpu-1' is in no rack.")


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (FILE.replace("nodes.rack", "nodes.xid"), 5, "Check 'nodes.xid' is registered twice."),
        (FILE.replace("nodes.rack", "racks"), 5, "Check 'racks' is of no tier."),
        ("import gpusmith\nimport no_such_module\n", 2, "ModuleNotFoundError"),
        ("x = 1\ndef broken(:\n", 2, "SyntaxError"),
    ],
    ids=["a taken name", "no tier", "an import", "no Python"],
)
def test_a_file_that_cannot_be_used_is_named_with_its_line(
    tmp_path: Path, text: str, line: int, says: str
) -> None:
    with pytest.raises(InputError) as error:
        own.load(written(tmp_path, text))
    assert error.value.message.startswith(f"'{tmp_path}/validation_plugins/site.py', line {line}: ")
    assert says in error.value.message


def test_a_check_that_breaks_says_where_and_is_no_fault_of_gpusmith(tmp_path: Path) -> None:
    own.load(written(tmp_path, FILE.replace("facts.host.name", "facts.racks")))
    found = evaluate(catalog()["nodes.rack"], "gpu-1", World().sources())
    assert found.outcome is Outcome.ERROR
    assert found.cause.startswith(f"'{tmp_path}/validation_plugins/site.py', line 7: AttributeError")
    assert found.next_step == "Correct the check there."


def test_a_package_that_is_broken_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("mysite", "no_such_module", own.GROUP)
    monkeypatch.setattr(own, "entry_points", lambda group: [point] if group == own.GROUP else [])
    with pytest.raises(InputError, match="no_such_module") as error:
        own.load([])
    assert "entry point 'mysite'" in error.value.hint
