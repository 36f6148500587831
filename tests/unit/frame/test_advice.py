"""Whatever a message tells a person to run, to set or to read is there: commands, playbooks, files, variables and checks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusmith.checks.register import catalog
from gpusmith.inventory.specs import load
from gpusmith.inventory.values import convert
from gpusmith.paths import repo_root
from tests.advice import COMMANDS, NO_COMMANDS, Where

QUOTED = re.compile(r"(?:(?<=^)|(?<=[\s(]))'([^'\n]+)'(?=$|[\s.,;:)])")
"""Words in quotes; not what stands between two apostrophes."""
AFTER_COLON = re.compile(r": ((?:kubectl|ansible|ansible-playbook|ssh-keygen) .*?)(?=$|[;.]$|[;.] )")
WHOLE = re.compile(r"^(kubectl .+)$")
SETTING = re.compile(r"([a-z]+_[a-z0-9_]+): (\S+)")
FILE = re.compile(
    r"(?<![\w/.-])((?:playbooks|data|docs|validation|meta|inventory/example)/[\w/.-]*\w|site\.yml)"
)
CHECK = re.compile(r"(?<![\w/-])((?:nodes|cluster|monitoring|workloads)\.[a-z]+(?:-[a-z]+)*)\b(?!\.\w)")


def _text(node: ast.AST) -> str:
    """Of a constant or an f-string, with 'X' for what is filled in; empty for others."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) if isinstance(part, ast.Constant) else "X" for part in node.values)
    return ""


def of_code(path: Path) -> Iterator[str]:
    """Texts of a module that are no documentation and no part of another one."""
    inner: set[int] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Expr):
            inner.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            inner.update(map(id, node.values))
        if id(node) not in inner and (text := _text(node)):
            yield re.sub(r"\{\w+\}", "X", text)


def of_yaml(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield re.sub(r"\{\{.*?\}\}|\{\w+\}", "X", value, flags=re.DOTALL)
    elif isinstance(value, dict):
        for inner in value.values():
            yield from of_yaml(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from of_yaml(inner)


@cache
def texts() -> dict[str, str]:
    """Everything that can reach a person, with the file that has it. What runs on nodes gives no advice."""
    root = repo_root()
    code = [
        path
        for folder in ("src/gpusmith", "plugins")
        for path in sorted((root / folder).rglob("*.py"))
        if "probe" not in path.parts
    ]
    documents = [
        root / "data/xid.yml",
        root / "data/gpus.yml",
        root / "data/other_names.yml",
        *sorted((root / "roles").glob("*/tasks/*.yml")),
        *sorted((root / "roles").glob("*/vars/*.yml")),
        *sorted((root / "roles").glob("*/files/rules/*.yml")),
        *sorted((root / "playbooks").rglob("*.yml")),
    ]
    found = {text: str(path.relative_to(root)) for path in code for text in of_code(path)}
    for path in documents:
        found.update(dict.fromkeys(of_yaml(yaml.safe_load(path.read_text())), str(path.relative_to(root))))
    return found


def commands() -> dict[str, str]:
    """Quoted words that may be a command, with the file."""
    return {
        quoted.strip(): path
        for text, path in texts().items()
        for pattern in (QUOTED, AFTER_COLON, WHOLE)
        for quoted in pattern.findall(text)
        if re.match(r"[a-z][a-z0-9.-]* \S", quoted.strip())
    }


def test_texts_are_found() -> None:
    seen = " ".join(texts())
    for words in (
        "Run site.yml.",
        "Drain 'X', then reset the GPU",
        "is for its owner to say",
        "Replace the board.",
    ):
        assert words in seen
    assert {"nvidia-smi -q -i X", "kubectl uncordon X", "nvidia-smi --gpu-reset -i INDEX"} <= set(commands())


def test_every_command_is_known_to_work() -> None:
    unknown = {
        quoted: path
        for quoted, path in commands().items()
        if quoted not in COMMANDS and quoted not in NO_COMMANDS and not SETTING.fullmatch(quoted)
    }
    assert unknown == {}, "add each to tests/advice.py, with how it is tried"


def test_no_command_is_listed_that_nobody_advises() -> None:
    assert set(COMMANDS) - set(commands()) == set()


@pytest.mark.parametrize("template", [name for name, row in COMMANDS.items() if row.where is Where.NODE])
def test_an_example_is_of_its_command(template: str) -> None:
    assert COMMANDS[template].example.split()[0] == template.split()[0]


def test_every_setting_is_a_variable_that_may_have_the_value() -> None:
    variables, ours = load().variables, tuple(f"{prefix}_" for prefix in load().prefixes)
    for text, path in texts().items():
        for quoted in QUOTED.findall(text):
            name = quoted.partition(":")[0]
            if not name.startswith(ours) or name in load().roles or not re.fullmatch(r"[a-z0-9_]+", name):
                continue
            assert name in variables, (name, path)
            setting = SETTING.fullmatch(quoted)
            if setting and "X" not in setting[2]:
                value = convert(variables[name], yaml.safe_load(setting[2]))
                assert not variables[name].choices or value in variables[name].choices, (quoted, path)


def test_every_file_that_is_named_is_there() -> None:
    missing = {
        name: path
        for text, path in texts().items()
        for name in FILE.findall(text)
        if "X" not in name and not (repo_root() / name).exists()
    }
    assert missing == {}


def test_every_check_that_is_named_is_one() -> None:
    known = set(catalog())
    named = {
        name: path
        for text, path in texts().items()
        if path.startswith(("src/gpusmith/checks", "src/gpusmith/expect", "src/gpusmith/workloads", "data/"))
        for name in CHECK.findall(text)
    }
    assert {name: path for name, path in named.items() if name not in known} == {}


def test_options_of_playbooks_are_declared() -> None:
    for template in COMMANDS:
        for name in re.findall(r" -e (\w+)=", template):
            assert name in load().variables


def test_nobody_is_told_to_remove_what_is_somebody_elses() -> None:
    for text, path in texts().items():
        if path.startswith(
            (
                "src/gpusmith/cluster",
                "src/gpusmith/checks/cluster",
                "roles/gpu_operands",
                "roles/gpu_monitoring",
            )
        ):
            assert not re.search(r"\b[Rr]emove (it|a second|their|the other)\b", text), (text, path)
