"""What a purge deletes and is somebody's own work: copies stay beside it, as rpm does it by itself with edited configuration files.

Standard library only, Python 3.8 or newer: it runs on the node.
"""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import itertools
import os
import re
from contextlib import contextmanager
from pathlib import Path
from typing import Dict, Iterable, Iterator, List, Mapping, Tuple

SUFFIX = ".before-gpusmith-removal"
# Dpkg takes such names beside a configuration file for its own and deletes them, also where the file itself is gone (1.21.22, tried
# 2026-11-25). '.dpkg-new' and '.dpkg-dist' are versions of the package.
BESIDE = r"{0}(?:~|%|\.bak|\.dpkg-old|~[0-9]+~)|#{0}#"


def places(root: Path, paths: Iterable[str]) -> Dict[str, str]:
    """By path, that of its copy; a copy of an earlier removal with other content stays."""
    return {path: _place(root, path) for path in paths if _at(root, path).is_file()}


def beside(root: Path, paths: Iterable[str]) -> List[str]:
    """What people and their editors have kept of configuration files, under names that go with these."""
    found = []
    for path in paths:
        folder, _, name = path.rpartition("/")
        pattern = re.compile(BESIDE.replace("{0}", re.escape(name)))
        if _at(root, folder).is_dir():
            others = (each.name for each in _at(root, folder).iterdir() if each.is_file())
            found += [f"{folder}/{other}" for other in others if pattern.fullmatch(other)]
    return sorted(found)


def _place(root: Path, path: str) -> str:
    content = _at(root, path).read_bytes()
    names = itertools.chain([path + SUFFIX], (f"{path}{SUFFIX}.{number}" for number in itertools.count(1)))
    return next(
        name for name in names if not _at(root, name).exists() or _at(root, name).read_bytes() == content
    )


@contextmanager
def copies(root: Path, kept: Mapping[str, str]) -> Iterator[None]:
    """Copies are there before the files go, and afterwards unless the file is as it was. Scripts may delete whole folders."""
    pairs = [(_at(root, path), _at(root, copy)) for path, copy in kept.items()]
    earlier = {
        copy: _look(copy) for path, _copy in pairs for copy in path.parent.glob(f"{path.name}{SUFFIX}*")
    }
    files = {path: _look(path) for path, _copy in pairs}
    made = {copy: files[path] for path, copy in pairs if copy not in earlier}
    for copy, (content, status) in made.items():
        _write(copy, content, status)
    try:
        yield
    finally:
        same = {
            path
            for path, (content, _status) in files.items()
            if path.is_file() and path.read_bytes() == content
        }
        for copy in (copy for path, copy in pairs if path in same and copy in made):
            copy.unlink(missing_ok=True)
            del made[copy]
        for copy, (content, status) in {**earlier, **made}.items():
            if not copy.exists():
                copy.parent.mkdir(parents=True, exist_ok=True)
                _write(copy, content, status)


def _look(path: Path) -> Tuple[bytes, os.stat_result]:
    return path.read_bytes(), path.stat()


def there(root: Path, kept: Mapping[str, str]) -> Dict[str, str]:
    """Those of which the copy is there."""
    return {path: copy for path, copy in kept.items() if _at(root, copy).exists()}


def _at(root: Path, path: str) -> Path:
    return root / path.lstrip("/")


def _write(copy: Path, content: bytes, status: os.stat_result) -> None:
    """A copy is to be read, not run: systemd makes services of programs in /etc/init.d."""
    copy.touch(mode=0o600)
    copy.write_bytes(content)
    os.chown(copy, status.st_uid, status.st_gid)
    copy.chmod(status.st_mode & 0o666)
