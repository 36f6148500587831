"""Small readers of files in /proc, /sys and /etc."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations


def read_text(path: str) -> str | None:
    """A file's text without white space around it; None if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return None


def to_int(text: str | None) -> int | None:
    """A whole number; None if the text is none."""
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None
