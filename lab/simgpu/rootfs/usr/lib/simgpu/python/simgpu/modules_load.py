"""Stands for systemd-modules-load, which calls the kernel itself and so would miss simulated modules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDERS = (
    "/etc/modules-load.d",
    "/run/modules-load.d",
    "/usr/local/lib/modules-load.d",
    "/usr/lib/modules-load.d",
)


def wanted() -> list[str]:
    """The modules that the machine's files name, in their order."""
    files: dict[str, Path] = {}
    for folder in map(Path, reversed(FOLDERS)):
        if folder.is_dir():
            files.update({path.name: path for path in folder.iterdir() if path.name.endswith(".conf")})
    names = []
    for _, path in sorted(files.items()):
        if path.resolve() != Path("/dev/null") and path.exists():
            lines = [line.strip() for line in path.read_text().splitlines()]
            names += [line for line in lines if line and line[0] not in "#;"]
    return names


def main(_: list[str]) -> int:
    """Load them all; returns 1 if one could not be loaded."""
    result = 0
    for name in wanted():
        done = subprocess.run(["/sbin/modprobe", "-b", name], capture_output=True, text=True)
        if done.returncode:
            print(f"Failed to find or insert module '{name}': {done.stderr.strip()}", file=sys.stderr)
            result = 1
    return result
