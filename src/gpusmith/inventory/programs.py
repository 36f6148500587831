"""Ansible's own programs, which read inventories and fill in templates."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpusmith.errors import ToolError
from gpusmith.paths import repo_root

READ_TIMEOUT_S = 120


def ansible_environment(working_folder: Path) -> dict[str, str]:
    """Environment for Ansible's programs: its own rules for ansible.cfg, then the checkout's file."""
    environment = dict(os.environ)
    # Verbosity would mix words into the JSON.
    environment["ANSIBLE_VERBOSITY"] = "0"
    ours = repo_root() / "ansible.cfg"
    if (
        not environment.get("ANSIBLE_CONFIG")
        and not (working_folder / "ansible.cfg").is_file()
        and ours.is_file()
    ):
        environment["ANSIBLE_CONFIG"] = str(ours)
    return environment


def run(
    name: str, words: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run one of the programs that are installed beside this Python.

    Raises:
        ToolError: it is missing, or does not end.
    """
    program = Path(sys.executable).parent / name
    if not program.is_file():
        raise ToolError(f"Program '{program}' is missing.", "Run 'make setup'.")
    try:
        return subprocess.run(
            [str(program), *words], cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=READ_TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise ToolError(
            f"'{name}' did not end within {READ_TIMEOUT_S} s.", "Look at the inventory's own scripts."
        ) from error


def last_lines(text: str) -> str:
    """The end of what a program said, in one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and "DEPRECATION" not in line]
    return " ".join(lines[-3:])[:600] or "no reason given"
