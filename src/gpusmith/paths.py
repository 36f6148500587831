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
    """The collection: the checkout that an editable installation runs from, else what the wheel has laid beside this package."""
    package = Path(__file__).resolve().parent
    installed = package.parent / "ansible_collections" / "gpusmith" / "gpu"
    return installed if installed.is_dir() and package.parent.name != "src" else package.parents[1]


def working_root() -> Path:
    """Where reports go and relative paths begin: the checkout, or for an installed gpusmith where one stands."""
    return root_of(repo_root())


def root_of(collection: Path) -> Path:
    """The same for a collection's folder."""
    return Path.cwd() if "ansible_collections" in collection.parts else collection
