"""Layers: tar files whose content alone decides their bytes."""

from __future__ import annotations

import io
import stat
import tarfile
from pathlib import Path, PurePosixPath

EPOCH = 0


class Layer:
    """A tar file under construction; everything belongs to root and has no date.

    Merged-/usr folders are written to where they really are: a real folder 'bin' over a link 'bin -> usr/bin' would hide it.
    """

    def __init__(self, target: Path, *, merged_usr: bool = False) -> None:
        self._tar = tarfile.open(target, "w", format=tarfile.GNU_FORMAT)  # noqa: SIM115 - closed by __exit__
        self._merged_usr = merged_usr
        self._folders: set[str] = set()

    def __enter__(self) -> Layer:
        return self

    def __exit__(self, *error: object) -> None:
        self._tar.close()

    def _name(self, path: str) -> str:
        name = str(PurePosixPath("/", path)).lstrip("/")
        first = name.partition("/")[0]
        return f"usr/{name}" if self._merged_usr and first in ("bin", "sbin", "lib", "lib64") else name

    def folder(self, path: str, mode: int = 0o755) -> None:
        """A folder with its parents, once."""
        name = self._name(path)
        for parent in [*reversed(PurePosixPath(name).parents), PurePosixPath(name)]:
            text = str(parent)
            if text == "." or text in self._folders:
                continue
            entry = tarfile.TarInfo(text)
            entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, mode if text == name else 0o755, EPOCH
            self._folders.add(text)
            self._tar.addfile(entry)

    def data(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """A file with this content."""
        entry = self._entry(path, mode)
        entry.size = len(content)
        self._tar.addfile(entry, io.BytesIO(content))

    def file(self, path: str, source: Path, mode: int | None = None) -> None:
        """A copy of a file; its mode too, unless one is given."""
        entry = self._entry(path, stat.S_IMODE(source.stat().st_mode) if mode is None else mode)
        entry.size = source.stat().st_size
        with source.open("rb") as content:
            self._tar.addfile(entry, content)

    def link(self, path: str, target: str) -> None:
        """A symbolic link."""
        entry = self._entry(path, 0o777)
        entry.type, entry.linkname = tarfile.SYMTYPE, target
        self._tar.addfile(entry)

    def tree(self, root: Path, below: str = "/") -> None:
        """A whole folder's content."""
        for path in sorted(root.rglob("*")):
            name = str(PurePosixPath(below, path.relative_to(root).as_posix()))
            if path.is_symlink():
                self.link(name, str(path.readlink()))
            elif path.is_dir():
                self.folder(name, stat.S_IMODE(path.stat().st_mode))
            else:
                self.file(name, path)

    def _entry(self, path: str, mode: int) -> tarfile.TarInfo:
        name = self._name(path)
        self.folder(str(PurePosixPath(name).parent))
        entry = tarfile.TarInfo(name)
        entry.mode, entry.mtime = mode, EPOCH
        return entry
