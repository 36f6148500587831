"""Where gpusmith keeps things outside the checkout (XDG base directories)."""

from __future__ import annotations

import os
from pathlib import Path


def _xdg(variable: str, fallback: str) -> Path:
    value = os.environ.get(variable, "")
    # The XDG specification says to ignore relative paths.
    base = Path(value) if value.startswith("/") else Path.home() / fallback
    return base / "gpusmith"


def cache_dir() -> Path:
    """Built artifacts, keyed by content; safe to delete."""
    return _xdg("XDG_CACHE_HOME", ".cache")


def state_dir() -> Path:
    """What must survive between two commands: the lab's keys and machines."""
    return _xdg("XDG_STATE_HOME", ".local/state")


def repo_root() -> Path:
    """The checkout that this (editable) installation runs from."""
    return Path(__file__).resolve().parents[2]
