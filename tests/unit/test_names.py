"""Names that a cluster knows gpusmith by stand in one file; YAML and templates repeat only those."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpusmith import names
from gpusmith.paths import repo_root

PYTHON = ("src", "plugins", "roles", "lab/gpulab", "validation")
YAML = ("roles", "playbooks", "meta", "validation", "inventory/example", "lab", "molecule")
OURS = re.compile(r"gpusmith\.io/|^gpusmith-(system|validation|programs)|=gpusmith-system")
DOCUMENTATION = {"DOCUMENTATION", "EXAMPLES", "RETURN"}
NO_NAME_OF_A_CLUSTER = {
    "plugins/plugin_utils/__init__.py",
    "src/gpusmith/cli.py",
    "src/gpusmith/paths.py",
    "src/gpusmith/suite/run.py",
    "validation/conftest.py",
}
"""Files that say 'gpusmith' and mean a folder, a Python package or a group of options."""
KNOWN = {value for value in vars(names).values() if isinstance(value, str)}


def python_files() -> list[Path]:
    found = [path for folder in PYTHON for path in (repo_root() / folder).rglob("*.py")]
    return [path for path in found if path != repo_root() / "src/gpusmith/names.py"]


def literals(path: Path) -> Iterator[str]:
    """Every string that a program uses: no docstring, and no documentation of Ansible's."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    left_out = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        or (
            isinstance(node, ast.Assign)
            and any(isinstance(name, ast.Name) and name.id in DOCUMENTATION for name in node.targets)
        )
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out:
            yield node.value


def offenders(path: Path) -> list[str]:
    shown = str(path.relative_to(repo_root())) if path.is_relative_to(repo_root()) else path.name
    exact = set() if shown in NO_NAME_OF_A_CLUSTER else {names.MANAGER}
    return [f"{shown}: {text!r}" for text in literals(path) if OURS.search(text) or text in exact]


def test_python_writes_them_nowhere_else() -> None:
    assert [line for path in python_files() for line in offenders(path)] == []


@pytest.mark.parametrize(
    "line",
    [
        'x = "gpusmith.io/run"', 'x = {"gpusmith.io/" + "a": 1}', 'manager = "gpusmith"', 'n = "gpusmith-system"',
        'x = f"gpusmith-validation-{n}"', 'x = "--namespace=gpusmith-system"',
    ],
)  # fmt: skip
def test_one_that_does_would_be_found(tmp_path: Path, line: str) -> None:
    path = tmp_path / "x.py"
    path.write_text(f'"""About gpusmith.io/run."""\n{line}\n')
    assert len(offenders(path)) == 1
    path.write_text(
        f'"""About gpusmith.io/run."""\nEXAMPLES = "gpusmith.io/run"\n\ndef f():\n    """{line[:3]}"""\n'
    )
    assert offenders(path) == []


def test_yaml_repeats_no_other_ones() -> None:
    found: dict[str, str] = {}
    for folder in YAML:
        for path in (repo_root() / folder).rglob("*"):
            if path.suffix in (".yml", ".yaml", ".j2") and path.is_file():
                for name in re.findall(
                    r"gpusmith\.io/[A-Za-z0-9._-]*[A-Za-z0-9]", path.read_text(encoding="utf-8")
                ):
                    found[name] = str(path)
    assert {name: path for name, path in found.items() if name not in KNOWN} == {}
    assert {names.OPERANDS_LABEL, names.SIMULATED_LABEL, names.STARTUP_TAINT} <= set(found)


def test_the_roles_defaults_are_the_same() -> None:
    operands = (repo_root() / "roles/gpu_operands/defaults/main.yml").read_text()
    assert f"gpu_operands_namespace: {names.OPERANDS_NAMESPACE}\n" in operands
    for path in (repo_root() / "roles/gpu_operands/templates").iterdir():
        for found in re.findall(r"app\.kubernetes\.io/managed-by: (\S+)", path.read_text()):
            assert found == names.MANAGER, path
