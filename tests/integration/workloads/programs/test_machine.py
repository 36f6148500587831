"""The program that asks a machine, with a real probe, below a root of its own."""

from __future__ import annotations

import base64
import importlib
import json
import os
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from gpusmith.node.bundle import BOOTSTRAP, bundle
from gpusmith.node.records import parse

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may change its root")


@pytest.fixture
def ask(programs: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The program's module, as its pod imports it."""
    monkeypatch.syspath_prepend(str(programs))
    return importlib.import_module("ask_machine")


def test_the_probe_of_the_machine_comes_whole(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/of/the/image")
    done = ask.work([sys.executable, "-c", BOOTSTRAP], 60, bundle(), "/")
    assert (done["status"], done["stderr"]) == (0, "")
    record = parse(json.loads(zlib.decompress(base64.b64decode(done["packed"]))))
    assert record.host.kernel == os.uname().release


@pytest.mark.parametrize(
    ("script", "status", "said"),
    [
        (None, 69, "it has no python3"),
        ("#!/bin/sh\nexit 1\n", 69, "its python3 is older than 3.8, or does not run"),
        ('#!/bin/sh\n[ "$2" = probe ] || exit 0\necho no >&2\nexit 3\n', 3, "no\n"),
        ('#!/bin/sh\n[ "$2" = probe ] || exit 0\nexec sleep 60\n', 124, ""),
    ],
    ids=["none", "old", "broken", "late"],
)
def test_a_machine_that_cannot_be_asked_says_why(
    ask: Any, tmp_path: Path, script: str | None, status: int, said: str
) -> None:
    python = tmp_path / "python3"
    if script:
        python.write_text(script)
        python.chmod(0o755)
    done = ask.work([str(python), "-c", "probe"], 1, b"", "/")
    assert (done["status"], done["stderr"]) == (status, said)


def test_too_long_an_answer_is_refused(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ask, "MOST", 100)
    with pytest.raises(importlib.import_module("gpu_driver").ProgramError, match="characters, packed"):
        ask.answer(0, os.urandom(200))
