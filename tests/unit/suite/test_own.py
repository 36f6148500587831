"""Checks of a site's own: files beside the inventory, and packages."""

from __future__ import annotations

import hashlib
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


LONG = "".join(hashlib.sha256(bytes([n])).hexdigest() for n in range(256)) * 2
FACTS = "def facts():\n    return 1\n"


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"a/rack.py": FACTS}, ""),
        ({"a/rack.py": "x = 1\n"}, "rack.py', line 1: SyntaxError: there is no function 'facts'"),
        ({"a/rack.py": FACTS + "match 1:\n    case 1: pass\n"}, "rack.py', line 4: SyntaxError"),
        ({"a/rack.py": FACTS, "b/rack.py": FACTS}, "have the same name"),
        ({"a/rack.py": f"{FACTS}X = {LONG!r}\n"}, "more than 8 KiB"),
    ],
    ids=["good", "without the function", "newer Python", "one name twice", "too long"],
)
def test_files_that_gather_facts_must_run_on_nodes(tmp_path: Path, files: dict[str, str], says: str) -> None:
    for name, text in files.items():
        folder, _, file = name.partition("/")
        path = tmp_path / folder / "validation_plugins" / "facts" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    folders = [str(tmp_path / name) for name in ("a", "b")]
    if not says:
        assert own.facts(folders) == (("rack", FACTS),)
        return
    with pytest.raises(InputError) as error:
        own.load(folders)
    assert says in error.value.message


def test_a_package_that_is_broken_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("mysite", "no_such_module", own.GROUP)
    monkeypatch.setattr(own, "entry_points", lambda group: [point] if group == own.GROUP else [])
    with pytest.raises(InputError, match="no_such_module") as error:
        own.load([])
    assert "entry point 'mysite'" in error.value.hint
