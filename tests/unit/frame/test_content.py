"""What must not be in the repository, and what must be in its locks."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from gpusmith.paths import repo_root

# Put together here, so that this file does not hold what it looks for.
OF_ONE_MACHINE = ["/" + "work/", ".py" + "env", "/home/" + "runner", "/opt/" + "wheels"]
REGISTRY_HOSTS = [
    "py" + "pi.org",
    "files.python" + "hosted",
    "proxy.go" + "lang.org",
    "registry.npm" + "js.org",
]
LOCKS = ["3.11", "3.12", "3.13"]


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=repo_root(),
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    return [
        path
        for name in listed.split("\0")
        if name and (path := repo_root() / name).is_file() and not path.is_symlink()
    ]


@pytest.fixture(scope="module")
def contents() -> dict[str, bytes]:
    return {str(path.relative_to(repo_root())): path.read_bytes() for path in tracked()}


@pytest.mark.parametrize("text", OF_ONE_MACHINE + REGISTRY_HOSTS)
def test_nothing_of_one_machine(contents: dict[str, bytes], text: str) -> None:
    assert [name for name, data in contents.items() if text.encode() in data] == []


def test_no_binaries(contents: dict[str, bytes]) -> None:
    pictures = re.compile(r"docs/images/[a-z0-9-]+\.png")
    assert [name for name, data in contents.items() if b"\0" in data and not pictures.fullmatch(name)] == []
    assert all(len(data) < 300_000 for name, data in contents.items() if pictures.fullmatch(name))


def test_no_private_keys(contents: dict[str, bytes]) -> None:
    # The first line of a key alone is a marker that code may look for; a key has a body.
    body = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[A-Za-z0-9+/=]{40}")
    assert [name for name, data in contents.items() if body.search(data)] == []


def test_a_lock_for_every_python() -> None:
    wanted = tomllib.loads((repo_root() / "pyproject.toml").read_text())["project"]["requires-python"]
    assert wanted == ">=3.11"
    assert sorted(path.name for path in (repo_root() / "requirements").glob("lock-*")) == [
        f"lock-py{v}.txt" for v in LOCKS
    ]


@pytest.mark.parametrize("python", LOCKS)
def test_lock_is_exact_and_hashed(python: str) -> None:
    text = (repo_root() / f"requirements/lock-py{python}.txt").read_text()
    assert "://" not in text
    assert not re.search(r"^-", text, re.MULTILINE), "an option of pip, such as an index"
    entries = re.split(r"\n(?=\S)", text.strip())
    loose = [
        entry.splitlines()[0]
        for entry in entries
        if not re.match(r"\S+==\S+.*--hash=sha256:", entry, re.DOTALL)
    ]
    assert loose == []


def test_the_lock_of_the_drawing_is_hashed_and_free() -> None:
    packages = json.loads((repo_root() / "tests/long/drawing/package-lock.json").read_text())["packages"]
    own = packages.pop("")
    assert all(re.fullmatch(r"[\d.]+", version) for version in own["dependencies"].values())
    assert [name for name, row in packages.items() if "resolved" in row or "integrity" not in row] == []
    assert [name for name, row in packages.items() if "GPL" in row.get("license", "")] == []


@pytest.mark.parametrize("python", LOCKS)
def test_lock_has_what_the_project_names(python: str) -> None:
    project = tomllib.loads((repo_root() / "pyproject.toml").read_text())["project"]
    extras = [line for group in project["optional-dependencies"].values() for line in group]
    names = {re.split(r"[<>=!~\[ ]", line)[0] for line in [*project["dependencies"], *extras]}
    text = (repo_root() / f"requirements/lock-py{python}.txt").read_text()
    assert [
        name for name in sorted(names) if not re.search(rf"^{re.escape(name)}==", text, re.MULTILINE)
    ] == []


@pytest.mark.parametrize(
    "path",
    sorted(
        path
        for kind in ("modules", "filter", "lookup", "callback")
        for path in (repo_root() / "plugins" / kind).glob("*.py")
    ),
    ids=lambda path: f"{path.parent.name}-{path.stem}",
)
def test_documentation_is_yaml(path: Path) -> None:
    # Ansible shows nothing of a plugin whose documentation cannot be read, and fails nothing.
    blocks = re.findall(
        r'^(DOCUMENTATION|EXAMPLES|RETURN) = r?"""(.*?)"""', path.read_text(), re.MULTILINE | re.DOTALL
    )
    for name, text in blocks:
        assert yaml.safe_load(text) is not None, f"{name} of '{path}'"


def test_no_page_has_a_chapter_twice(contents: dict[str, bytes]) -> None:
    for name, content in contents.items():
        if name.endswith(".md"):
            chapters = re.findall(r"^## .+$", content.decode(), re.MULTILINE)
            assert sorted(set(chapters)) == sorted(chapters), name
