"""Certificates of the site's authorities: their files, and the machine's trust store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

from gpusmith.expect import files as of_roles
from gpusmith.expect.files import Files
from gpusmith.inventory import authorities
from gpusmith.probe.record import Record
from gpusmith.probe.trust import ANCHORS
from gpusmith.problems import Cure, Problem


def files(given: Mapping[str, Any]) -> dict[str, str]:
    """Content by path, from keys certificates (by name), folder and suffix."""
    folder, suffix = given["folder"], given["suffix"]
    texts = authorities.texts(given["certificates"])
    return {f"{folder}/{PREFIX}{name}{suffix}": text for name, text in texts.items()}


PREFIX = "gpusmith-"


def leaving(record: Record, names: Sequence[str]) -> list[str]:
    """Paths of our files of authorities that the inventory does not list any more."""
    return [
        path
        for path in record.marked_files
        if any(fnmatchcase(path, pattern) for pattern in ANCHORS) and _name(path) not in names
    ]


def untrusted(record: Record, names: Sequence[str]) -> list[str]:
    """Names of authorities that the trust store has not as our files do."""
    there = {_name(path) for path in record.trusted}
    return [name for name in names if name not in there]


def problems(record: Record, node: str, names: Sequence[str], wanted: Files) -> list[Problem]:
    """What role host_baseline makes of the trust store. What is wrong with the files themselves is said by `files`."""
    late = {_name(path) for path in of_roles.outdated(record, wanted)}
    found = [
        Problem(
            f"Node '{node}': the trust store has no certificate of authority '{name}', which the inventory lists.",
            "Run site.yml for the node.",
            {f"authority_{name}": list(record.trusted)},
            Cure.HOST,
        )
        for name in untrusted(record, names)
        if name not in late
    ]
    gone = leaving(record, names)
    return found + [
        Problem(
            f"Node '{node}': the trust store has the authority of '{path}', which the inventory does not list any more.",
            "Run site.yml for the node.",
            {f"authority_{_name(path)}": path},
            Cure.HOST,
        )
        for path in gone
    ]


def _name(path: str) -> str:
    return PurePosixPath(path).stem.removeprefix(PREFIX)
