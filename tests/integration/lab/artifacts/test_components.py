"""What is compiled, and from which versions."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpulab.artifacts import golang
from gpulab.artifacts.components import (
    WORKSPACE,
    component,
)
from gpulab.artifacts.store import Store


@pytest.mark.parametrize(
    "name", ["etcd", "coredns", "containerd", "kube-state-metrics", "alertmanager", "prometheus"]
)
def test_all_programs_come_from_one_call_of_the_compiler(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part, calls, pages = component(name), tmp_path / "calls", tmp_path / "pages"
    go = tmp_path / "go"
    # Writes what 'go build -o FOLDER/ PACKAGE...' writes.
    go.write_text(
        f"""#!/bin/sh
[ "$1" != mod ] || exit 0
echo "$GOWORK $@" >> {calls}
find vendor -type f >> {pages}
for word do
    case $word in
        -o) next=folder ;;
        *) [ "$next" != folder ] || folder=$word; next="" ;;
    esac
    case $word in
        .) : > "$folder/{name}" ;;
        */v3) : > "$folder/server" ;;
        */v2) : > "$folder/{name}" ;;
        *.*/*/cmd/*) : > "$folder/${{word##*/}}" ;;
    esac
done
"""
    )
    go.chmod(0o755)
    monkeypatch.setattr(golang, "find_go", lambda: str(go))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = golang.build(Store(tmp_path / "store"), part, lambda: tmp_path, "key")
    assert {path.name for path in folder.iterdir() if not path.name.startswith(".")} == set(part.programs)
    (call,) = calls.read_text().splitlines()
    assert call.split()[0] == (str(WORKSPACE) if part.in_workspace else "off")
    # Where upstream embeds web pages, Go finds some in a copy of the modules: those that it fetched cannot be changed.
    assert pages.read_text().split() == [f"vendor/{page}" for page in part.pages]
    assert f"-mod={'vendor' if part.pages else 'readonly'}" in call.split()
