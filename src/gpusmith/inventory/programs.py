"""Ansible's own programs, which read inventories and fill in templates."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from gpusmith.errors import ToolError
from gpusmith.paths import repo_root

READ_TIMEOUT_S = 120
MODULES = {"ansible": "adhoc", "ansible-inventory": "inventory"}
"""What 'python -m ansible' calls them."""


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
    name: str,
    words: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    timeout_s: float = READ_TIMEOUT_S,
) -> subprocess.CompletedProcess[str]:
    """Run one of the programs of this Python's Ansible: beside it, or, as after 'pip install --user', in another folder.

    Raises:
        ToolError: it is missing, or does not end.
    """
    program = Path(sys.executable).parent / name
    command = [str(program)] if program.is_file() else [sys.executable, "-m", "ansible", MODULES[name]]
    if not program.is_file() and find_spec("ansible") is None:
        raise ToolError(
            f"Program '{program}' is missing.",
            f"Install package 'ansible-core' for '{sys.executable}'; in a checkout, run 'make setup'.",
        )
    try:
        return subprocess.run(
            [*command, *words], cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=timeout_s, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise ToolError(
            f"'{name}' did not end within {timeout_s:.0f} s.", "Look at the inventory's own scripts."
        ) from error


def last_lines(text: str) -> str:
    """The end of what a program said, in one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and "DEPRECATION" not in line]
    return " ".join(lines[-3:])[:600] or "no reason given"
