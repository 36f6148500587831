"""The commands of the README: targets, help, what setup refuses."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

PROMISED = {"demo", "test", "check", "setup", "lab-up", "lab-down", "clean", "help"}


def test_help_lists_every_target(root: Path) -> None:
    shown = subprocess.run(["make", "help"], cwd=root, capture_output=True, text=True, check=True).stdout
    listed = set(re.findall(r"^  make (\S+)", shown, re.MULTILINE))
    declared = set(re.findall(r"^([a-z0-9-]+):", (root / "Makefile").read_text(), re.MULTILINE))
    assert listed == declared
    assert listed >= PROMISED


def test_setup_refuses_an_unknown_option(root: Path) -> None:
    done = subprocess.run([root / "scripts/bootstrap", "--yess"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Unknown option '--yess'" in done.stderr


def test_setup_refuses_an_unsupported_python(root: Path, tmp_path: Path) -> None:
    old = tmp_path / "python3.8"
    old.write_text("#!/bin/sh\necho 3.8\n")
    old.chmod(0o755)
    command = [str(root / "scripts/bootstrap"), "--no-packages", "--python", str(old)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "'3.8'" in done.stderr
    assert "3.11" in done.stderr
