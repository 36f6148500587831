"""Checks and workloads of a site's own: Python files beside the inventory, and packages that bring some."""

from __future__ import annotations

import ast
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import gpusmith
from gpusmith.checks.register import Check, catalog
from gpusmith.errors import GpusmithError, InputError
from gpusmith.node.bundle import Own, bundle

FOLDER = "validation_plugins"
FACTS = "facts"
"""Folder in it, of files that gather facts on nodes, each by a function of that name."""
MOST_FACTS = 8 * 1024
GROUP = "gpusmith.checks"
"""Entry points by which an installed package brings checks: each names a module."""
PACKAGE = str(Path(gpusmith.__file__).parent)


def load(folders: Sequence[str]) -> None:
    """Register what files and packages bring.

    Args:
        folders: of the inventory.

    Raises:
        InputError: one of them is broken, or takes a name that is taken; with file and line.
    """
    # First, so that a name that both have is refused where the site has it.
    catalog()
    facts(folders)
    for folder in folders:
        for path in sorted((Path(folder) / FOLDER).glob("*.py")):
            _guarded(partial(_import, path), f"Correct it, or take it out of '{FOLDER}'.")
    for found in entry_points(group=GROUP):
        who = found.dist.name if found.dist else "?"
        _guarded(found.load, f"Package '{who}' brings it (entry point '{found.name}'): correct or remove it.")


def facts(folders: Iterable[str]) -> Own:
    """The files that gather facts on nodes, which are read and not run here.

    Args:
        folders: of the inventory.

    Raises:
        InputError: one of them cannot run on nodes, or all together are too long.
    """
    found: dict[str, tuple[Path, str]] = {}
    for path in [path for folder in folders for path in sorted((Path(folder) / FOLDER / FACTS).glob("*.py"))]:
        _guarded(partial(_check_facts, path), "Correct it; it runs on nodes, with Python 3.8 and later.")
        if path.stem in found:
            raise InputError(
                f"'{path}' and '{found[path.stem][0]}' have the same name.", "Give one of them another name."
            )
        found[path.stem] = path, path.read_text(encoding="utf-8")
    made = tuple((name, text) for name, (_path, text) in found.items())
    if made and len(bundle(made)) - len(bundle()) > MOST_FACTS:
        raise InputError(
            f"Files of '{FOLDER}/{FACTS}' have more than {MOST_FACTS // 1024} KiB, compressed.",
            "Shorten them: they travel to each node in one command.",
        )
    return made


def _check_facts(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 8))
    if not any(isinstance(row, ast.FunctionDef) and row.name == FACTS for row in tree.body):
        raise SyntaxError(f"there is no function '{FACTS}'", (str(path), 1, None, None))


def _import(path: Path) -> None:
    name = f"{FOLDER}.{path.stem}"
    if str(path) in {getattr(module, "__file__", None) for module in list(sys.modules.values())}:
        return
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickles of it look there.
    sys.modules[name] = module
    spec.loader.exec_module(module)


def _guarded(load_it: Callable[[], Any], step: str) -> None:
    try:
        load_it()
    except Exception as error:
        raise InputError(f"{where(error)}: {_words(error)}", step) from error


def is_own(check: Check) -> bool:
    """Whether somebody else than gpusmith has written a check."""
    return not str(getattr(check.judge, "__module__", "gpusmith.")).startswith("gpusmith.")


def broken(error: Exception) -> tuple[str, str]:
    """Cause and next step of a check of the site's own that has a fault."""
    return f"{where(error)}: {_words(error)}", "Correct the check there."


def where(error: BaseException) -> str:
    """File and line of what is not gpusmith's."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"'{error.filename}', line {error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    others = [row for row in frames if not row.filename.startswith((PACKAGE, "<frozen"))]
    last = (others or frames)[-1]
    return f"'{last.filename}', line {last.lineno}"


def _words(error: BaseException) -> str:
    if isinstance(error, GpusmithError):
        return str(error)
    return f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
