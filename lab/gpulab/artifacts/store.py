"""Built things, kept by the content of what they were built from.

    <cache>/artifacts/<name>/<key>/     one finished artifact, never changed afterwards
    <cache>/artifacts/<name>/.tmp-*     an unfinished one; swept by the next run
    <cache>/artifacts/.lock             held while anything is built

A folder gets its final name by one rename after its build has ended, so a killed build leaves no half artifact.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from gpulab.progress import say, step
from gpusmith.errors import ToolError

Inputs: TypeAlias = "bool | int | str | Sequence[Inputs] | Mapping[str, Inputs] | None"

KEY_LENGTH = 16
KEEP = 3  # a running lab may still have the one before mounted
TEMPORARY = ".tmp-"


def key_of(inputs: Inputs) -> str:
    """The key of an artifact: a digest of everything that decides its content."""
    text = json.dumps(inputs, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_LENGTH]


def digest_file(path: Path) -> str:
    """The SHA-256 of one file, in hexadecimal."""
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def digest_tree(root: Path) -> str:
    """The digest of a small source folder: names, modes, links and contents, without Python's leftovers."""
    total = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if "__pycache__" in path.parts or path.suffix == ".pyc" or (path.is_dir() and not path.is_symlink()):
            continue
        total.update(f"{path.relative_to(root)}\0{path.lstat().st_mode & 0o777:o}\0".encode())
        total.update(str(path.readlink()).encode() if path.is_symlink() else digest_file(path).encode())
    return total.hexdigest()


@dataclass(frozen=True)
class Store:
    """The folder of all artifacts of this machine."""

    root: Path
    built: list[str] = field(default_factory=list)
    _guard: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _locks: dict[Path, threading.Lock] = field(default_factory=dict, repr=False)

    def path(self, name: str, key: str) -> Path:
        """Where the artifact is, or will be."""
        return self.root / name / key

    def get(self, name: str, inputs: Inputs, build: Callable[[Path], None], label: str = "") -> Path:
        """The artifact's folder, built now if it does not exist; a thread that comes second waits for the first.

        Args:
            name: what it is, as a folder name.
            inputs: everything that decides its content.
            build: fills the empty folder that it is given.
            label: the step's text for people.
        """
        final = self.path(name, key_of(inputs))
        with self._guard:
            lock = self._locks.setdefault(final, threading.Lock())
        with lock:
            if final.is_dir():
                os.utime(final)
            else:
                self._build(final, build, label or name)
                self.built.append(name)
                self.prune(name)
        return final

    @staticmethod
    def _build(final: Path, build: Callable[[Path], None], label: str) -> None:
        final.parent.mkdir(parents=True, exist_ok=True)
        with step(label):
            unfinished = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=final.parent))
            try:
                unfinished.chmod(0o755)
                build(unfinished)
                unfinished.rename(final)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)

    def prune(self, name: str, keep: int = KEEP) -> None:
        """Forget all but the most recently used versions of one artifact."""
        versions = [path for path in (self.root / name).iterdir() if not path.name.startswith(TEMPORARY)]
        for path in sorted(versions, key=lambda path: path.stat().st_mtime, reverse=True)[keep:]:
            shutil.rmtree(path)

    def sweep(self) -> None:
        """Remove what killed builds left; only under the lock."""
        for path in [*self.root.glob(f"{TEMPORARY}*"), *self.root.glob(f"*/{TEMPORARY}*")]:
            # A child of a killed run may still write there: what it leaves now is swept the next time.
            shutil.rmtree(path, ignore_errors=True)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the only right to build, waiting for another process that has it."""
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / ".lock").open("a+") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                handle.seek(0)
                say(
                    f"==> waiting for process {handle.read().strip() or '?'}, which builds the same artifacts"
                )
                fcntl.flock(handle, fcntl.LOCK_EX)
            handle.truncate(0)
            handle.write(f"{os.getpid()}\n")
            handle.flush()
            self.sweep()
            yield


def need_programs(programs: Mapping[str, str]) -> None:
    """Check that host programs exist.

    Args:
        programs: program -> the Debian package that brings it.

    Raises:
        ToolError: names every one that is missing, and the packages to install.
    """
    missing = {program: package for program, package in programs.items() if shutil.which(program) is None}
    if missing:
        names = ", ".join(f"'{name}'" for name in missing)
        packages = " ".join(sorted(set(missing.values())))
        raise ToolError(
            f"The lab's artifacts need programs that are not installed: {names}.",
            f"Install them: apt-get install {packages}",
        )
