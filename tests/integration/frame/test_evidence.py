"""The command that packs how a run went on one machine, with programs that only say what they were asked."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

PROGRAM = """#!/bin/sh
echo "$(basename "$0") $*"
[ "$(basename "$0")" != "$FAILS" ]
"""


def run(root: Path, folder: Path, *words: str, fails: str = "") -> subprocess.CompletedProcess[str]:
    for name in ("scripts", ".venv/bin"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name in ("evidence", "environment.sh"):
        shutil.copy(root / "scripts" / name, folder / "scripts")
    for name in ("ansible", "ansible-playbook", "pytest", "git"):
        program = folder / ".venv/bin" / name
        program.write_text(PROGRAM)
        program.chmod(0o755)
    return subprocess.run(
        [folder / "scripts/evidence", *words],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "FAILS": fails},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def packed(folder: Path) -> dict[str, str]:
    (archive,) = (folder / "reports").glob("*.tar.gz")
    with tarfile.open(archive) as content:
        return {
            Path(row.name).name: (content.extractfile(row) or pytest.fail("no file")).read().decode()
            for row in content
            if row.isfile()
        }


def test_all_steps_are_in_one_archive_and_one_that_fails_is_named(root: Path, tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").touch()
    done = run(root, tmp_path, "hosts.yml", "gpu-1", fails="ansible-playbook")
    assert done.returncode == 1
    assert "2 of 6 steps failed: site-first.txt site-second.txt" in done.stderr
    texts = packed(tmp_path)
    for name in ("site-first.txt", "site-second.txt"):
        assert f"ansible-playbook -i {tmp_path}/hosts.yml site.yml -l gpu-1" in texts.pop(name)
    assert "-m gpusmith.gpu.node_state" in texts["record-before.txt"]
    assert "pytest validation --inventory" in texts["suite.txt"]
    assert all(text.endswith("[exit status 0]\n") for text in texts.values())


@pytest.mark.parametrize("words", [["hosts.yml"], ["none.yml", "gpu-1"]])
def test_it_needs_an_inventory_and_a_host(root: Path, tmp_path: Path, words: list[str]) -> None:
    done = run(root, tmp_path, *words)
    assert (done.returncode, "usage: scripts/evidence INVENTORY HOST" in done.stderr) == (2, True)
    assert not (tmp_path / "reports").exists()
