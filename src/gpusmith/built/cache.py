"""Built modules on the controller, a folder for each key, which only the user who runs Ansible reads and writes.

KEY/modules.tar.gz   the archive
KEY/manifest.json    what is in it, its checksum and who built it; written last, and touched by each use
KEY/failed.json      nodes on which the build failed, and in which run
KEY.lock             locked by who builds
.KEY.PID             what is on its way here
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from gpusmith.built.key import Key, as_json
from gpusmith.errors import InputError
from gpusmith.paths import cache_dir
from gpusmith.wait import Deadline, Done, NotYet, wait_until

SCHEMA = "gpusmith.built/1"
ARCHIVE, MANIFEST, FAILED = "modules.tar.gz", "manifest.json", "failed.json"
OURS = {ARCHIVE, MANIFEST, FAILED, f".{MANIFEST}.new", f".{FAILED}.new"}
UNFINISHED = re.compile(r"\..+-[0-9a-f]{12}\.\d+")
TICK_S = 0.5
DAY_S = 86400
KEEP_DAYS = 90


@dataclass(frozen=True)
class Entry:
    """Built modules.

    Attributes:
        archive: its path.
        manifest: what is in it.
        builder: who built it.
        seconds: how long that took.
    """

    archive: Path
    manifest: Mapping[str, Any]
    builder: str
    seconds: float


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Cache:
    """The folder.

    Args:
        folder: empty for the user's cache folder.
        keep_days: how long something is kept that no run uses; 0 keeps everything.

    Raises:
        InputError: it cannot be made, or somebody else could write there, and what lies there goes into kernels.
    """

    def __init__(self, folder: str = "", keep_days: int = KEEP_DAYS) -> None:
        self._keep_days = keep_days
        self.folder = Path(folder).expanduser() if folder else cache_dir() / "modules"
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise InputError(
                f"The folder '{self.folder}' of built kernel modules cannot be made: {error}.",
                "Name another one ('nvidia_driver_build_cache').",
            ) from error
        status = self.folder.stat()
        if status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise InputError(
                f"The folder '{self.folder}' of built kernel modules is open to others than '{os.getuid()}'.",
                f"Run 'chmod 0700 {self.folder}' as its owner, or name another one ('nvidia_driver_build_cache').",
            )

    def find(self, key: Key) -> Entry | None:
        """What was built for a key; None if there is nothing, or not what the manifest says. Such a thing is removed."""
        place = self.folder / key.name
        try:
            found = json.loads((place / MANIFEST).read_text())
            whole = found["schema"] == SCHEMA and found["key"] == as_json(key)
            if whole and found["sha256"] == digest(place / ARCHIVE):
                return Entry(place / ARCHIVE, found["manifest"], found["builder"], found["seconds"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            pass
        shutil.rmtree(place, ignore_errors=True)
        return None

    def used(self, key: Key) -> None:
        """Note that a run uses what was built for a key, if anything was."""
        with contextlib.suppress(FileNotFoundError):
            os.utime(self.folder / key.name / MANIFEST)

    def put(
        self, key: Key, archive: Path, manifest: Mapping[str, Any], builder: str, seconds: float
    ) -> Entry:
        """Keep what was built, and forget what has not been used for long."""
        place = self.folder / key.name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(mode=0o700)
        target = place / ARCHIVE
        shutil.move(archive, target)
        target.chmod(0o600)
        content = {
            "schema": SCHEMA,
            "key": as_json(key),
            "sha256": digest(target),
            "manifest": dict(manifest),
            "builder": builder,
            "seconds": round(seconds, 1),
        }
        _write(place / MANIFEST, content)
        # What goes meanwhile, or cannot be looked at, is no reason to have built for nothing.
        with contextlib.suppress(OSError):
            self._prune(key)
        return Entry(target, manifest, builder, seconds)

    def _prune(self, key: Key) -> None:
        """Make room after something has come."""
        if self._keep_days <= 0:
            return
        kept_s = self._keep_days * DAY_S
        for path in [path for path in self.folder.iterdir() if _is_ours(path)]:
            if path != self.folder / key.name and _last_use(path) < time.time() - kept_s:
                # Another run may do the same.
                path.unlink(missing_ok=True) if path.is_file() else shutil.rmtree(path, ignore_errors=True)

    # --- who builds ----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def turn(
        self, key: Key, host: str, deadline: Deadline, sleep: Callable[[float], None] = time.sleep
    ) -> Iterator[None]:
        """One host at a time for a key. A worker that is killed gives its turn back by ending.

        Raises:
            WaitTimeout: another host took too long.
        """
        path = self.folder / f"{key.name}.lock"
        with path.open("a+") as file:
            path.chmod(0o600)

            def look() -> Done[None] | NotYet:
                if _locked(file):
                    return Done(None)
                return NotYet(f"'{path.read_text()}' builds it")

            wait_until(f"the modules of {key}", look, deadline, TICK_S, sleep)
            file.truncate(0)
            file.write(host)
            file.flush()
            yield

    def failures(self, key: Key, run: str) -> list[str]:
        """Hosts on which the build failed in this run."""
        try:
            found = json.loads((self.folder / key.name / FAILED).read_text())
            return [str(host) for host in found["hosts"]] if found["run"] == run else []
        except (OSError, ValueError, KeyError, TypeError):
            return []

    def failed(self, key: Key, run: str, host: str) -> None:
        """Note that the build failed on a host."""
        place = self.folder / key.name
        place.mkdir(mode=0o700, exist_ok=True)
        _write(place / FAILED, {"run": run, "hosts": [*self.failures(key, run), host]})


def _is_ours(path: Path) -> bool:
    """Whether something in the folder is what a run has built, or left. The folder may have other things."""
    if path.is_symlink() or not path.is_dir():
        return path.is_file() and UNFINISHED.fullmatch(path.name) is not None
    names = {each.name for each in path.iterdir()}
    return bool(names & {MANIFEST, FAILED}) and names <= OURS


def _last_use(path: Path) -> float:
    paths = [path, path / MANIFEST] if path.is_dir() else [path]
    return max((each.stat().st_mtime for each in paths if each.exists()), default=time.time())


def _locked(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write(path: Path, content: Mapping[str, Any]) -> None:
    new = path.with_name(f".{path.name}.new")
    new.touch(mode=0o600)
    new.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")
    new.replace(path)
