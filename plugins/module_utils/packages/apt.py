"""The backend for apt and dpkg.

Sources are written in apt's deb822 form with the key inside; Ansible's own `deb822_repository` needs python3-debian, which a bare
machine does not have. Standard library only, Python 3.8 or newer: it runs on the node.
"""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import shutil
import signal
import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from ansible_collections.gpusmith.gpu.plugins.module_utils import files
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import apt_sources, programs
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.apt_files import (
    render_preferences,
    render_source,
    without_holds,
    without_packages,
)
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.apt_output import (
    HALF_UNPACKED,
    LOCKED,
    QUERY,
    UNPACKED,
    cause,
    parse_cut_off,
    parse_half_done,
    parse_installed,
    parse_madison,
    parse_owner,
    parse_simulation,
    parse_unmet,
)
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.authorities import bundle
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.base import (
    INSTALL_TIMEOUT_S,
    LOCK_TIMEOUT_S,
    MANIFEST,
    SOURCE,
    UPDATE_TIMEOUT_S,
    Backend,
    BusyError,
    File,
    Installed,
    Offers,
    PackageError,
    Plan,
    Repository,
    Saved,
    UnfinishedError,
    alike,
    digest,
    read_manifest,
    refuse_others,
    released,
    write_manifest,
)
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.programs import Manner

# What nothing needs any more stays, whatever the machine's own settings say.
KEPT = ("-o", "APT::Get::AutomaticRemove=0")
# What is known of other repositories is no part of it.
UNCACHED = ("-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache=")
# What a machine does when all its lists are read. Ubuntu tells by it when that was, and one that fails is an error of the update.
HOOKS = ("APT::Update::Post-Invoke-Success", "APT::Update::Post-Invoke")
FORCE = ["--force-confdef", "--force-confold"]


# --- programs ------------------------------------------------------------------------------------------------------

MANNER = Manner(
    {
        "DEBIAN_FRONTEND": "noninteractive",
        "NEEDRESTART_MODE": "l",
        "APT_LISTCHANGES_FRONTEND": "none",
    },
    LOCKED,
    cause,
    # It is deaf to this while dpkg works, and would break dpkg off by its end.
    signal.SIGINT,
)
run = partial(programs.run, MANNER)


class Apt:
    """See `base.Backend` for what its functions do.

    Args:
        lock_timeout_s: how long another program may keep a lock.
        root: of the system; another one than / is for tests.
        options: for every program of apt.
        execute: runs programs, see `programs.run`.
    """

    name = "apt"

    def __init__(
        self,
        lock_timeout_s: float = LOCK_TIMEOUT_S,
        root: Path = Path("/"),
        options: Sequence[str] = (),
        execute: Callable[..., str] = run,
    ) -> None:
        self._lock_timeout_s = lock_timeout_s
        self._root = root
        self._execute = execute
        self._etc = root / "etc/apt"
        self._sources = self._etc / "sources.list.d"
        self._preferences = self._etc / "preferences.d"
        self._lists = root / "var/lib/apt/lists"
        self._dpkg = root / "var/lib/dpkg"
        self.trouble = ""
        self._is_aside = False
        self._options = list(options)
        self._database: List[str] = []
        if root != Path("/"):
            self._database = [f"--root={root}"]
            self._options += ["-o", f"Dir={root}", "-o", f"Dir::State::status={self._dpkg}/status"]
            self._options += ["-o", f"DPkg::Options::=--root={root}", "-o", "APT::Sandbox::User=root"]

    # --- looking ---------------------------------------------------------------------------------------------------

    def installed(self, names: Iterable[str]) -> Dict[str, Installed]:
        """See `base.Backend`."""
        listed = sorted(set(names))
        if not listed:
            return {}
        # dpkg-query knows patterns of names only.
        asked = [] if any(name.startswith(SOURCE) for name in listed) else listed
        found = parse_installed(self._query(*asked))
        return {
            name: package
            for name, package in found.items()
            if (name in listed if ":" in name else asked or alike(name, package.source, listed))
        }

    def _query(self, *names: str) -> str:
        """What dpkg knows of packages. Status 1 only says that one of the names is unknown."""
        return self._execute(["dpkg-query", *self._database, "-W", "-f", QUERY, *names], 60, accept=(0, 1))

    def refresh(self, owner: Optional[str] = None) -> None:
        """See `base.Backend`."""
        self._update([] if owner is None else _only(self._source(owner)))

    def agree(self) -> None:
        """See `base.Backend`."""
        with apt_sources.told(self._etc):
            self._execute(["apt-get", "indextargets", *self._options], 60)

    def _authorities(self) -> str:
        asked = [
            "apt-config",
            *self._options,
            "dump",
            "--no-empty",
            "--format=%v%n",
            "Acquire::https::CaInfo",
        ]
        return self._execute(asked, 60).strip()

    def offered(self, names: Iterable[str]) -> Offers:
        """See `base.Backend`."""
        listed = sorted(set(names))
        if not listed:
            return {}
        return parse_madison(
            self._execute(["apt-cache", *self._options, "madison", *listed], 60, accept=(0, 100))
        )

    def prove(self, owner: str, asked: Mapping[str, str]) -> None:
        """See `base.Backend`. The lists that were read are signed."""

    @contextmanager
    def aside(self, repositories: Mapping[str, Repository], beside_node: bool = False) -> Iterator[Backend]:
        """See `base.Backend`."""
        with tempfile.TemporaryDirectory(prefix="gpusmith-apt-") as name:
            folder = Path(name)
            # apt downloads as its own user.
            folder.chmod(0o755)
            for part in ("sources", "preferences", "log", "lists/partial", "cache/archives/partial"):
                (folder / part).mkdir(parents=True)
            if beside_node:
                ours = {file.path for owner in repositories for file in self.pin_files(owner, {})}
                _copy(self._sources, folder / "sources")
                _copy(self._preferences, folder / "preferences", ours)
                # What is known already is not fetched again, and is what there is where a mirror does not answer.
                _copy(self._lists, folder / "lists")
            for owner, repository in repositories.items():
                for file in self.repository_files(owner, repository):
                    (folder / "sources" / file.path.name).write_text(file.text or "", encoding="utf-8")
            options = [
                "-o",
                f"Dir::Etc::SourceParts={folder}/sources",
                "-o",
                f"Dir::State::Lists={folder}/lists",
            ]
            options += [
                "-o",
                f"Dir::Log={folder}/log",
                "-o",
                f"Dir::Cache={folder}/cache",
                "-o",
                "APT::Sandbox::User=root",
            ]
            options += ["-o", "Acquire::Languages=none", "-o", "Acquire::Retries=1"]
            options += ["-o", "Acquire::http::Timeout=20", "-o", "Acquire::https::Timeout=20"]
            if authorities := bundle(folder, self._authorities):
                options += ["-o", f"Acquire::https::CaInfo={authorities}"]
            if beside_node:
                options += ["-o", f"Dir::Etc::PreferencesParts={folder}/preferences"]
            else:
                options += ["-o", f"Dir::Etc::SourceList={folder}/none", "-o", "Dir::State::status=/dev/null"]
            asked = Apt(self._lock_timeout_s, self._root, options, self._execute)
            # Later ones win: what is asked stands after what belongs to the root.
            asked._options = [*self._options, *options]
            asked._sources, asked._preferences = folder / "sources", folder / "preferences"
            asked._is_aside = True
            if not beside_node:
                asked.refresh()
                yield asked
                return
            for owner in repositories:
                asked.refresh(owner)
            try:
                asked.refresh()
            except PackageError as error:
                asked.trouble = str(error)
            yield asked

    def owner(self, path: str) -> Optional[str]:
        """See `base.Backend`."""
        # Packages may name the path from before /lib and /usr/lib became one.
        names = {path, path[4:] if path.startswith("/usr/lib") else "/usr" + path}
        words = ["dpkg-query", *self._database, "-S", *sorted(names)]
        found: Optional[str] = parse_owner(self._execute(words, 60, accept=(0, 1)))
        return found

    def simulate(
        self,
        versions: Mapping[str, str],
        pins: Mapping[str, Sequence[str]],
        released: Sequence[str] = (),
        displaced: Sequence[str] = (),
        reads: bool = False,
    ) -> Plan:
        """See `base.Backend`."""
        wanted = [*_exact_words(versions), *_gone_words(displaced)]
        lost = self._lost()
        with self._as_if(pins, released, lost) as options:
            words = [*self._get("install"), "--simulate", *options, *wanted]
            attempt = partial(self._execute, words, UPDATE_TIMEOUT_S)
            plan = parse_simulation(self._with_lists(attempt) if reads else attempt())
        others = sorted(lost - plan.installed.keys())
        if others:
            raise PackageError(
                f"An installation that was interrupted left {', '.join(others)} incomplete. "
                "Run 'apt-get --fix-broken install' on the machine."
            )
        return plan

    def simulate_from(
        self,
        folder: Path,
        pins: Mapping[str, Sequence[str]],
        released: Sequence[str] = (),
        displaced: Sequence[str] = (),
    ) -> Plan:
        """See `base.Backend`."""
        wanted = [*self._words_of(folder), *_gone_words(displaced)]
        with self._as_if(pins, released) as options:
            words = [*self._get("install"), "--simulate", *options, *wanted]
            return parse_simulation(self._execute(words, UPDATE_TIMEOUT_S))

    @contextmanager
    def _as_if(
        self, pins: Mapping[str, Sequence[str]], released: Sequence[str], gone: Iterable[str] = ()
    ) -> Iterator[List[str]]:
        """Options with which apt sees these pins, no holds of these packages, and others not at all."""
        with tempfile.TemporaryDirectory(prefix="gpusmith-simulation-") as name:
            folder = Path(name)
            # The file stands in for that of an administrator, whose pins count as well.
            main = self._etc / "preferences"
            own = f"{files.read(main)}\n" if main.is_file() else ""
            files.put(folder / "pins.pref", own + render_preferences(pins, "a simulation"))
            options = ["-o", f"Dir::Etc::Preferences={folder}/pins.pref"]
            if released or gone:
                status = (self._dpkg / "status").read_text(encoding="utf-8", errors="surrogateescape")
                status = without_packages(without_holds(status, released), gone)
                (folder / "status").write_text(status, encoding="utf-8", errors="surrogateescape")
                options += ["-o", f"Dir::State::status={folder}/status"]
            yield options

    # --- files -----------------------------------------------------------------------------------------------------

    def _source(self, owner: str) -> Path:
        return self._sources / f"{apt_sources.OURS}{owner}.sources"

    def repository_files(self, owner: str, repository: Optional[Repository]) -> List[File]:
        """See `base.Backend`."""
        if repository is not None and repository.type != "deb":
            raise PackageError(
                f"The repository of '{owner}' is of type '{repository.type}', and apt reads repositories of type 'deb'. "
                "Name one of these for the machine, with 'type: deb'."
            )
        return [File(self._source(owner), render_source(repository, owner) if repository else None)]

    def pin_files(self, owner: str, pins: Mapping[str, Sequence[str]]) -> List[File]:
        """See `base.Backend`."""
        return [
            File(
                self._preferences / f"gpusmith-{owner}.pref",
                render_preferences(pins, owner) if pins else None,
            ),
            # Patterns had a file of their own; left there, it would pin the version of its day.
            File(self._preferences / f"gpusmith-{owner}-set.pref", None),
        ]

    # --- changing --------------------------------------------------------------------------------------------------

    def hold(self, versions: Mapping[str, str]) -> None:
        """See `base.Backend`."""
        self._mark("hold", versions)

    def release(self, names: Iterable[str]) -> None:
        """See `base.Backend`."""
        self._mark("unhold", names)

    def blocked(self) -> str:
        """See `base.Backend`. Apt keeps back what it cannot upgrade, and upgrades the rest."""
        return ""

    def install(
        self,
        versions: Mapping[str, str],
        displaced: Sequence[str] = (),
        erase: bool = True,
    ) -> None:
        """See `base.Backend`."""
        words = [*self._get("install"), *_kept_words(erase)]
        if self._lost():
            # Apt takes them for installed, and installs what they need only if it is told of all that.
            words.append("--reinstall")
            versions = {**self.simulate(versions, {}, (), displaced).installed, **versions}
        words += [*_exact_words(versions), *_gone_words(displaced)]
        self._with_lists(partial(self._change, words))

    def _with_lists(self, attempt: Callable[[], str]) -> str:
        """What an attempt says, with lists that are read anew if it fails by those that are there.

        A fresh image has no lists of the distribution, an old one stale lists: what packages need is then not found.
        """
        try:
            return attempt()
        except PackageError as error:
            if isinstance(error, UnfinishedError) or LOCKED.search(str(error)) or UNPACKED.search(str(error)):
                raise
            self._read_lists(["apt-get", *self._options, "update", "-q"], accept=range(256))
            return attempt()

    def fetch(self, versions: Mapping[str, str], folder: Path) -> List[Saved]:
        """See `base.Backend`."""
        try:
            there: List[Saved] = read_manifest(folder, self.name)
        except PackageError:
            there = []
        if {each.name: each.version for each in there} == dict(versions):
            return there
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / MANIFEST).exists():
            (folder / MANIFEST).unlink()
        offers = self.offered(versions)
        offered = {name: version for name, version in versions.items() if version in offers.get(name, [])}
        for name, version in sorted(versions.items()):
            if name not in offered:
                shutil.copy2(self._cached(name, version), folder)
        if offered:
            words = ["apt-get", *self._options, "download", "-q", "-o", "APT::Sandbox::User=root"]
            self._execute([*words, *_exact_words(offered)], INSTALL_TIMEOUT_S, cwd=folder)
        saved = []
        for path in sorted(folder.glob("*.deb")):
            # A download that was killed has the name of the whole file; what is wanted of it was fetched anew.
            words = ["dpkg-deb", "-W", "--showformat=${Package}\t${Version}", str(path)]
            name, _, version = self._execute(words, 60, accept=(0, 2)).strip().partition("\t")
            if version and versions.get(name) == version:
                saved.append(Saved(name, version, path.name, digest(path)))
            else:
                path.unlink()
        lacking = sorted(set(versions) - {each.name for each in saved})
        if lacking:
            raise PackageError(
                f"apt-get did not save {', '.join(lacking)} in '{folder}'. Look at the space there."
            )
        write_manifest(folder, self.name, saved)
        return saved

    def _cached(self, name: str, version: str) -> Path:
        """The archive that an earlier installation left in apt's cache."""
        cache = self._root / "var/cache/apt/archives"
        # As apt names them. One of the machine's own architecture sorts before a foreign one.
        found = next(iter(sorted(cache.glob(f"{name}_{version.replace(':', '%3a')}_*.deb"))), None)
        if found is None:
            raise PackageError(f"Neither a repository nor '{cache}' has '{name}' in version '{version}'.")
        return found

    def install_from(self, folder: Path, displaced: Sequence[str] = (), erase: bool = True) -> None:
        """See `base.Backend`."""
        wanted = [*self._words_of(folder), *_gone_words(displaced)]
        self._change([*self._get("install"), *_kept_words(erase), *wanted])

    def _words_of(self, folder: Path) -> List[str]:
        """Options and files with which nothing but what a folder has, and what is installed, can be chosen."""
        saved = read_manifest(folder, self.name)
        nothing = ["-o", "Dir::Etc::SourceList=/dev/null", "-o", "Dir::Etc::SourceParts=/dev/null"]
        nothing += [*UNCACHED, "-o", "APT::Sandbox::User=root"]
        files = [str((folder / each.file).resolve()) for each in saved]
        return [*nothing, *files]

    def removal(self, names: Iterable[str], unused: bool = False) -> Dict[str, str]:
        """See `base.Backend`."""
        listed = sorted(set(names))
        if not listed:
            return {}
        # Who holds what would go is told as well.
        plan = self._simulate_removal("remove", *KEPT, "-o", "APT::Ignore-Hold=1", *listed)
        refuse_others(plan, listed)
        gone: Dict[str, str] = plan.removed
        if unused:
            # Apt takes all that nothing needs, whatever it came with.
            before = self._simulate_removal("autoremove").removed
            after = self._simulate_removal("remove", "--autoremove", *listed).removed
            more = {name: version for name, version in after.items() if name not in before}
            if more.keys() - gone.keys():
                return self.removal([*listed, *more])
        return gone

    def _simulate_removal(self, verb: str, *words: str) -> Plan:
        simulation = [*self._get(verb), "--simulate", "--allow-change-held-packages"]
        return parse_simulation(self._execute([*simulation, *words], UPDATE_TIMEOUT_S))

    def remove(self, names: Iterable[str], unused: bool = False) -> Dict[str, str]:
        """See `base.Backend`."""
        gone = self.removal(names, unused)
        if gone:
            with released(self, gone):
                self._change([*self._get("remove"), *KEPT, *sorted(gone)])
        return gone

    def repair(self) -> bool:
        """See `base.Backend`."""
        updates = self._dpkg / "updates"
        journal = updates.is_dir() and any(updates.iterdir())
        if not journal and not self._half_done():
            return False
        self._execute(
            ["dpkg", *self._database, "--configure", "-a", *FORCE],
            INSTALL_TIMEOUT_S,
            accept=range(256),
            lock_timeout_s=self._lock_timeout_s,
        )
        cut_off = parse_cut_off(self._query())
        if cut_off:
            # In the version that is there: nobody asked for another. Where nobody offers it any more, one that is to come does as well.
            self._execute(
                [*self._get("install"), "--reinstall", "--no-remove", *_exact_words(cut_off)],
                self._lock_timeout_s + INSTALL_TIMEOUT_S,
                accept=range(256),
                lock_timeout_s=self._lock_timeout_s,
            )
        try:
            self._execute(["apt-get", *self._options, "check", "-q"], 60, lock_timeout_s=self._lock_timeout_s)
        except (BusyError, UnfinishedError):
            raise
        except PackageError:
            # What it would take to remove something is for a person to decide, who reads it in the next install's error.
            self._execute(
                [*self._get("install"), "--fix-broken", "--no-remove"],
                self._lock_timeout_s + INSTALL_TIMEOUT_S,
                accept=range(256),
                lock_timeout_s=self._lock_timeout_s,
            )
        return True

    def _half_done(self) -> Dict[str, str]:
        found: Dict[str, str] = parse_half_done(self._query())
        return found

    def _lost(self) -> Set[str]:
        """Packages that apt takes for installed and that are not: half unpacked, or without what they need.

        A machine that lost power while packages were unpacked has such; those that were only to be configured, `repair` finishes.
        """
        state = self._query()
        half_done = parse_half_done(state)
        if not half_done:
            return set()
        said = self._execute(["apt-get", *self._options, "check", "-q"], 60, accept=range(256))
        half_unpacked = (name for name, letter in half_done.items() if letter == HALF_UNPACKED)
        return {*parse_unmet(said), *parse_cut_off(state), *half_unpacked}

    # --- programs --------------------------------------------------------------------------------------------------

    def _get(self, verb: str) -> List[str]:
        words = [
            "apt-get",
            verb,
            *self._options,
            "-q",
            "-y",
            "-o",
            f"DPkg::Lock::Timeout={self._lock_timeout_s:.0f}",
        ]
        if verb == "install":
            words += ["--no-install-recommends", "--allow-downgrades", "--allow-change-held-packages"]
        for option in FORCE:
            words += ["-o", f"Dpkg::Options::={option}"]
        return words

    def _change(self, words: Sequence[str]) -> str:
        # apt waits for the lock by itself.
        return self._execute(
            words, self._lock_timeout_s + INSTALL_TIMEOUT_S, lock_timeout_s=self._lock_timeout_s
        )

    def _mark(self, verb: str, names: Iterable[str]) -> None:
        listed = sorted(set(names))
        if listed:
            self._execute(
                ["apt-mark", verb, *self._options, *listed], 60, lock_timeout_s=self._lock_timeout_s
            )

    def _update(self, options: Sequence[str]) -> None:
        # Unlike apt-get's own default, an address that does not answer is an error.
        self._read_lists(
            ["apt-get", "update", "-q", "-o", "APT::Update::Error-Mode=any", *self._options, *options],
            has_hooks=not options,
        )

    def _read_lists(self, words: Sequence[str], accept: Sequence[int] = (0,), has_hooks: bool = True) -> None:
        # Keys that stand in sources are put into files, which some versions of apt leave there.
        with apt_sources.told(self._etc), tempfile.TemporaryDirectory(prefix="gpusmith-keys-") as name:
            # They are read, and others written, by a user of apt's own.
            Path(name).chmod(0o1777)
            # Read after the machine's own files. No option takes parts of a list away.
            without = Path(name, "apt.conf")
            without.write_text("".join(f"#clear {hook};\n" for hook in HOOKS), encoding="utf-8")
            self._execute(
                [*words, *(["-c", str(without)] if self._is_aside or not has_hooks else [])],
                UPDATE_TIMEOUT_S,
                accept=accept,
                lock_timeout_s=self._lock_timeout_s,
                environment={"TMPDIR": name},
            )


def _copy(folder: Path, target: Path, without: Iterable[Path] = ()) -> None:
    """Files of a folder, if there is one; times of the lists tell apt what is new."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.is_file() and path.name != "lock" and path not in without:
            shutil.copy2(path, target)


def _only(source: Path) -> List[str]:
    """Options that make apt-get update read one source and leave the lists of the others alone."""
    pairs: List[Tuple[str, str]] = [
        ("Dir::Etc::SourceList", str(source)),
        ("Dir::Etc::SourceParts", "-"),
        ("APT::Get::List-Cleanup", "0"),
    ]
    return [word for name, value in pairs for word in ("-o", f"{name}={value}")]


def _kept_words(erase: bool) -> List[str]:
    return [] if erase else ["--no-remove"]


def _gone_words(names: Iterable[str]) -> List[str]:
    return [f"{name}-" for name in sorted(names)]


def _exact_words(versions: Mapping[str, str]) -> List[str]:
    return [f"{name}={version}" if version else name for name, version in sorted(versions.items())]
