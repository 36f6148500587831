"""A machine with apt and dpkg: where their files are, and how their programs are run."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import copy
import signal
import tempfile
from functools import partial
from pathlib import Path
from typing import Callable, Iterable, List, Mapping, Sequence

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import apt_output, apt_sources, programs
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.base import (
    INSTALL_TIMEOUT_S,
    UPDATE_TIMEOUT_S,
)

# What a machine does when all its lists are read. Ubuntu tells by it when that was, and one that fails is an error of the update.
HOOKS = ("APT::Update::Post-Invoke-Success", "APT::Update::Post-Invoke")
FORCE = ("--force-confdef", "--force-confold")
MANNER = programs.Manner(
    {"DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_MODE": "l", "APT_LISTCHANGES_FRONTEND": "none"},
    apt_output.LOCKED,
    apt_output.cause,
    # It is deaf to this while dpkg works, and would break dpkg off by its end.
    signal.SIGINT,
)
run = partial(programs.run, MANNER)


def options(values: Mapping[str, object]) -> List[str]:
    """Words by which apt takes settings."""
    return [word for name, value in values.items() for word in ("-o", f"{name}={value}")]


class Machine:
    """A machine, as apt and dpkg see it.

    Args:
        lock_timeout_s: how long another program may keep a lock.
        root: of the system; another one than / is for tests.
        settings: words for every program of apt.
        execute: runs programs, see `programs.run`.

    Attributes:
        root: likewise.
        execute: likewise.
        etc: folder of apt's configuration.
        sources: folder of sources.
        preferences: folder of preferences.
        lists: folder of the lists that were read.
        dpkg: folder of dpkg's database.
        settings: likewise.
        is_aside: whether sources and lists are others than the machine's own.
    """

    def __init__(
        self, lock_timeout_s: float, root: Path, settings: Sequence[str], execute: Callable[..., str]
    ) -> None:
        self._lock_timeout_s = lock_timeout_s
        self.root = root
        self.execute = execute
        self.etc = root / "etc/apt"
        self.sources = self.etc / "sources.list.d"
        self.preferences = self.etc / "preferences.d"
        self.lists = root / "var/lib/apt/lists"
        self.dpkg = root / "var/lib/dpkg"
        self.is_aside = False
        self.settings = list(settings)
        self._database: List[str] = []
        if root != Path("/"):
            self._database = [f"--root={root}"]
            self.settings += options(
                {
                    "Dir": root,
                    "Dir::State::status": self.dpkg / "status",
                    "DPkg::Options::": f"--root={root}",
                    "APT::Sandbox::User": "root",
                }
            )

    def aside(self, folder: Path, settings: Sequence[str]) -> Machine:
        """The same machine, with sources and preferences in another folder, and with these settings besides."""
        other = copy.copy(self)
        other.sources, other.preferences = folder / "sources", folder / "preferences"
        # Later ones win: what is asked stands after what belongs to the root.
        other.settings = [*self.settings, *settings]
        other.is_aside = True
        return other

    # --- looking ---------------------------------------------------------------------------------------------------

    def packages(self, *names: str) -> str:
        """What dpkg knows of packages, in lines of `apt_output.QUERY`. Status 1 only says that one of the names is unknown."""
        return self.dpkg_query(["-W", "-f", apt_output.QUERY, *names])

    def dpkg_query(self, words: Sequence[str]) -> str:
        """What dpkg's database says."""
        return self.execute(["dpkg-query", *self._database, *words], 60, accept=(0, 1))

    def ask(self, program: str, *words: str, accept: Sequence[int] = (0,)) -> str:
        """What a program of apt says of the lists as they are."""
        return self.execute([program, *self.settings, *words], 60, accept=accept)

    def unmet(self) -> str:
        """What apt-get says of packages that lack what they need."""
        return self.ask("apt-get", "check", "-q", accept=range(256))

    # --- changing --------------------------------------------------------------------------------------------------

    def get(self, verb: str) -> List[str]:
        """The beginning of a command of apt-get that changes, or would change, packages."""
        patience = options({"DPkg::Lock::Timeout": f"{self._lock_timeout_s:.0f}"})
        words = ["apt-get", verb, *self.settings, "-q", "-y", *patience]
        if verb == "install":
            words += ["--no-install-recommends", "--allow-downgrades", "--allow-change-held-packages"]
        return [*words, *(word for each in FORCE for word in options({"Dpkg::Options::": each}))]

    def change(self, words: Sequence[str], accept: Sequence[int] = (0,)) -> str:
        """Run a command of apt-get that changes packages; apt waits for the lock by itself."""
        timeout_s = self._lock_timeout_s + INSTALL_TIMEOUT_S
        return self.execute(words, timeout_s, accept=accept, lock_timeout_s=self._lock_timeout_s)

    def configure(self) -> None:
        """Have dpkg configure what is not; what that says is no failure."""
        words = ["dpkg", *self._database, "--configure", "-a", *FORCE]
        self.execute(words, INSTALL_TIMEOUT_S, accept=range(256), lock_timeout_s=self._lock_timeout_s)

    def check(self) -> None:
        """Raise an error if packages lack what they need."""
        words = ["apt-get", *self.settings, "check", "-q"]
        self.execute(words, 60, lock_timeout_s=self._lock_timeout_s)

    def mark(self, verb: str, names: Iterable[str]) -> None:
        """Hold packages, or let them go."""
        listed = sorted(set(names))
        if listed:
            words = ["apt-mark", verb, *self.settings, *listed]
            self.execute(words, 60, lock_timeout_s=self._lock_timeout_s)

    def read_lists(self, words: Sequence[str], accept: Sequence[int] = (0,), has_hooks: bool = True) -> None:
        """Run a command that reads lists."""
        # Keys that stand in sources are put into files, which some versions of apt leave there.
        with apt_sources.told(self.etc), tempfile.TemporaryDirectory(prefix="gpusmith-keys-") as name:
            # They are read, and others written, by a user of apt's own.
            Path(name).chmod(0o1777)
            # Read after the machine's own files. No option takes parts of a list away.
            without = Path(name, "apt.conf")
            without.write_text("".join(f"#clear {hook};\n" for hook in HOOKS), encoding="utf-8")
            self.execute(
                [*words, *(["-c", str(without)] if self.is_aside or not has_hooks else [])],
                UPDATE_TIMEOUT_S,
                accept=accept,
                lock_timeout_s=self._lock_timeout_s,
                environment={"TMPDIR": name},
            )


def exact_words(versions: Mapping[str, str]) -> List[str]:
    """What apt takes for packages in their full versions; an empty version leaves it open."""
    return [f"{name}={version}" if version else name for name, version in sorted(versions.items())]
