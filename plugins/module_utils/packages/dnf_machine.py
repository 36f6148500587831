"""A machine with dnf 4 and rpm: where their files are, how their programs are run, and what these list.

Dnf is run as a program, since the Python that runs this need not be the one that has dnf's library.
"""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import configparser
import copy
import os
import re
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Callable, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.gpusmith.gpu.plugins.module_utils import files
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import (
    dnf_output,
    programs,
    rpm,
    versionlock,
)
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.base import (
    INSTALL_TIMEOUT_S,
    LOCK_TIMEOUT_S,
    SOURCE,
    alike,
)

# Lists as they are on the machine, those of repositories that have none left out.
AS_READ = ("-C", "--setopt=*.skip_if_unavailable=1")
# A repository that does not answer is an error.
READING = ("makecache", "--refresh", "--setopt=*.skip_if_unavailable=0")
# Repositories that do not answer are left out; what was installed can be saved when no repository has it any more.
CHANGING = ("--setopt=*.skip_if_unavailable=1", "--setopt=keepcache=1")
# Plugins of dnf that do more than is asked for: a repository of all that is downloaded, commits of /etc, a list of all packages. The others
# stay: repositories of clouds, of subscriptions and of artifact registries cannot be read without theirs.
BESIDES = ("local", "etckeeper", "generate_completion_cache")
# Without locks.
ALONE = (f"--disableplugin={','.join(['versionlock', *BESIDES])}",)
WITH_LOCKS = (f"--disableplugin={','.join(BESIDES)}", "--enableplugin=versionlock")
CACHE = "var/cache/dnf"
MANNER = programs.Manner({"NEEDRESTART_MODE": "l"}, dnf_output.LOCKED, dnf_output.cause)
run = partial(programs.run, MANNER)


class Machine:
    """A machine, as dnf and rpm see it.

    Args:
        root: of files; another one than / is for tests.
        execute: runs programs, see `programs.run`.
        lock_timeout_s: how long another program may keep a lock.

    Attributes:
        root: likewise.
        execute: likewise.
        lock_timeout_s: likewise.
        repositories: folder of dnf's repositories.
        keys: folder of their keys.
        plugins: folder of the configuration of dnf's plugins.
        locks: the list of dnf's plugin versionlock.
        cache: folder of lists and of downloaded packages.
        options: of every call of dnf.
    """

    def __init__(
        self,
        root: Path = Path("/"),
        execute: Callable[..., str] = run,
        lock_timeout_s: float = LOCK_TIMEOUT_S,
    ) -> None:
        self.root = root
        self.execute = execute
        self.lock_timeout_s = lock_timeout_s
        self.repositories = root / "etc/yum.repos.d"
        self.keys = root / "etc/pki/rpm-gpg"
        self.plugins = root / "etc/dnf/plugins"
        self.locks = root / versionlock.PATH
        self.cache = root / CACHE
        self.options: List[str] = []

    def aside(self, place: Path) -> Machine:
        """The same machine, with repositories, keys and lists in an empty folder instead of its own."""
        other = copy.copy(self)
        other.repositories, other.keys, other.cache = (
            place / part for part in ("repositories", "keys", "cache")
        )
        places = {
            "reposdir": other.repositories,
            "cachedir": other.cache,
            "logdir": place / "log",
            "persistdir": place / "state",
        }
        for folder in (*places.values(), other.keys):
            folder.mkdir()
        other.options = [f"--setopt={option}={path}" for option, path in places.items()]
        other.options += ["--setopt=*.timeout=20", "--setopt=*.retries=1"]
        return other

    # --- files -----------------------------------------------------------------------------------------------------

    def source(self, owner: str) -> Path:
        """The file of an owner's repositories."""
        return self.repositories / f"gpusmith-{owner}.repo"

    def key(self, owner: str) -> Path:
        """The file of the key of an owner's repositories."""
        return self.keys / f"gpusmith-{owner}.asc"

    def ids(self, owner: str) -> List[str]:
        """What dnf calls an owner's repositories."""
        return re.findall(r"^\[(.+)\]$", files.read(self.source(owner)) or "", re.MULTILINE)

    def has_repositories(self) -> bool:
        """Whether there are any; without one dnf ends with an error."""
        return any(self.repositories.glob("*.repo"))

    def settings(self) -> configparser.ConfigParser:
        """Repositories of the files, with what the main file says as their defaults."""
        found = configparser.ConfigParser(interpolation=None, strict=False, default_section="main")
        for path in [self.root / "etc/dnf/dnf.conf", *sorted(self.repositories.glob("*.repo"))]:
            with suppress(configparser.Error):
                found.read_string(files.read(path) or "", str(path))
        return found

    def locks_text(self) -> Optional[str]:
        """What the list of locks says; None if there is none."""
        text: Optional[str] = files.read(self.locks)
        return text

    def has_locks(self) -> bool:
        """Whether dnf's plugin versionlock is there."""
        return any(self.root.glob("usr/lib/python3*/*-packages/dnf-plugins/versionlock.py"))

    def without_locks(self) -> List[str]:
        """Options with which dnf runs all its plugins but that for locks."""
        return ["--disableplugin=versionlock"] if self.has_locks() else []

    # --- programs --------------------------------------------------------------------------------------------------

    def dnf(
        self,
        words: Sequence[str],
        timeout_s: float,
        accept: Sequence[int] = (0,),
        unless: str = "",
        yes: bool = True,
    ) -> str:
        """Standard output of dnf; see `programs.run`.

        Args:
            words: its arguments.
            timeout_s: when to give up.
            accept: exit statuses that are no failure.
            unless: found in its errors, no status is a failure.
            yes: to all that it asks.
        """
        general = ["dnf", *(["-y"] if yes else []), "--setopt=exit_on_lock=1", *self.options]
        return self.execute(
            [*general, *words], timeout_s, accept=accept, unless=unless, lock_timeout_s=self.lock_timeout_s
        )

    def need_locks(self) -> None:
        """Bring dnf's plugin versionlock, a package of its own on some systems."""
        if not self.has_locks():
            self.dnf(["install", "dnf-command(versionlock)"], INSTALL_TIMEOUT_S)

    def installed(self, patterns: Sequence[str] = ()) -> List[rpm.Row]:
        """Installed packages by shell patterns; all without any."""
        rows: List[rpm.Row] = rpm.parse_rows(
            self.execute(["rpm", "-qa", "--qf", rpm.INSTALLED, *patterns], 60)
        )
        return rows

    def offered(self, patterns: Sequence[str]) -> List[rpm.Row]:
        """What repositories have by shell patterns, by the lists as they are."""
        if not self.has_repositories():
            return []
        words = ["-q", *ALONE, *AS_READ, "repoquery", "--qf", rpm.OFFERED, *patterns]
        rows: List[rpm.Row] = rpm.parse_rows(self.dnf(words, 60))
        return rows

    def candidates(self, patterns: Sequence[str]) -> List[rpm.Row]:
        """What repositories have by patterns as `base.alike` reads them."""
        asked = [] if any(pattern.startswith(SOURCE) for pattern in patterns) else sorted(patterns)
        return [row for row in self.offered(asked) if alike(row.name, row.source, patterns)]


def arches() -> Tuple[str, str]:
    """Of packages that this machine runs; repositories have others under the same names and versions."""
    return os.uname().machine, "noarch"


def nevra(row: rpm.Row) -> str:
    """What dnf and rpm take for exactly that package."""
    return f"{row.name}-{row.version}.{row.arch}"


def as_asked(erase: bool = True) -> List[str]:
    """Options with which nothing but what is asked for decides, and with which other packages may go for it."""
    return [*(["--allowerasing"] if erase else []), "--setopt=best=0", "--setopt=install_weak_deps=0"]


def exact_words(versions: Mapping[str, str]) -> List[str]:
    """What dnf takes for packages in their full versions; an empty version leaves it open."""
    return [f"{name}-{version}" if version else name for name, version in sorted(versions.items())]
