"""Files that roles write, by the digests in the record."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from fnmatch import fnmatchcase

from gpusmith.probe.record import Record
from gpusmith.problems import Cure, Problem

Files = Mapping[str, str]
"""Content by path. None are known to who has only the inventory."""


def digest(content: str) -> str:
    """As the record has it."""
    return hashlib.sha256(content.encode()).hexdigest()


def outdated(record: Record, files: Files) -> list[str]:
    """Paths of files that are missing or say something else."""
    return [path for path, content in files.items() if record.managed_files.get(path) != digest(content)]


def left_over(record: Record, node: str, files: Files, pattern: str, cure: Cure) -> list[Problem]:
    """Each file of ours by a pattern that the inventory does not list any more; those of others are not ours to judge."""
    return [
        Problem(
            f"Node '{node}': file '{path}' is still there, and the inventory does not list it any more.",
            "Run site.yml for the node.",
            {f"file_{path}": record.managed_files.get(path)},
            cure,
        )
        for path in record.marked_files
        if fnmatchcase(path, pattern) and path not in files
    ]


def problems(record: Record, node: str, files: Files, cure: Cure = Cure.FILES) -> list[Problem]:
    """Each file that is missing or says something else."""
    return [
        Problem(
            f"Node '{node}': file '{path}' {'has another content' if path in record.managed_files else 'is missing'},"
            " wanted as the inventory says.",
            f"Run site.yml; if it comes back, find out who else writes '{path}' on '{node}'.",
            {f"file_{path}": record.managed_files.get(path)},
            cure,
        )
        for path in outdated(record, files)
    ]
