"""The zip that travels: what it has, and that it runs on a node."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gpusmith.node import bundle
from gpusmith.node.records import parse
from tests.integration.pythons import PYTHONS


@pytest.mark.parametrize("python", PYTHONS)
def test_the_program_prints_one_record_as_json(python: str) -> None:
    # Without the environment's own packages, as on a node.
    command = [python, "-I", "-S", "-c", bundle.BOOTSTRAP]
    done = subprocess.run(command, input=bundle.bundle(), capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    record = json.loads(done.stdout)
    assert set(record) >= {"host", "packages", "nvml", "xids", "containerd", "cdi", "kubernetes", "system"}
    assert parse(record).host.kernel


@pytest.mark.parametrize("python", PYTHONS)
def test_facts_of_a_site_come_along_and_break_nothing(python: str) -> None:
    own = (
        ("good", "def facts():\n    return {'rack': (1,)}\n"),
        ("bad", "def facts():\n    return {1, 2}\n"),
    )
    command = [python, "-I", "-S", "-c", bundle.BOOTSTRAP]
    done = subprocess.run(command, input=bundle.bundle(own), capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    record = parse(json.loads(done.stdout))
    assert record.own == {"good": {"rack": [1]}}
    assert [error for error in record.errors if "own facts 'bad': TypeError" in error]


def test_where_there_are_no_files_in_memory_no_file_stays(tmp_path: Path) -> None:
    code = "import os; del os.memfd_create\n" + bundle.BOOTSTRAP
    done = subprocess.run(
        [sys.executable, "-I", "-c", code],
        input=bundle.bundle(), capture_output=True, timeout=60, env={"TMPDIR": str(tmp_path)}, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["schema"] == "gpusmith.probe/1"
    assert list(tmp_path.iterdir()) == []
