"""The backend for apt and dpkg: its programs are of `apt_machine`, what was interrupted of `apt_repair`.

Sources are written in apt's deb822 form with the key inside; Ansible's own `deb822_repository` needs python3-debian, which a bare
machine does not have.
"""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Set

from ansible_collections.gpusmith.gpu.plugins.module_utils import files
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import (
    apt_files,
    apt_output,
    apt_repair,
    apt_sources,
    base,
    manifests,
)
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.apt_machine import (
    Machine,
    exact_words,
    options,
    run,
)
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.authorities import bundle
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.removals import Removals

# What nothing needs any more stays, whatever the machine's own settings say.
KEPT = tuple(options({"APT::Get::AutomaticRemove": 0}))
# Nothing but the folder's files can be chosen; what is known of other repositories is no part of it.
ALONE = {
    "Dir::Etc::SourceList": "/dev/null",
    "Dir::Etc::SourceParts": "/dev/null",
    "Dir::Cache::pkgcache": "",
    "Dir::Cache::srcpkgcache": "",
    "APT::Sandbox::User": "root",
}


class Apt(Removals):
    """See `base.Backend` for what its functions do.

    Args:
        lock_timeout_s: how long another program may keep a lock.
        root: of the system; another one than / is for tests.
        settings: words for every program of apt.
        execute: runs programs, see `programs.run`.
        machine: instead of the one that these describe.
    """

    name = "apt"

    def __init__(
        self,
        lock_timeout_s: float = base.LOCK_TIMEOUT_S,
        root: Path = Path("/"),
        settings: Sequence[str] = (),
        execute: Callable[..., str] = run,
        machine: Optional[Machine] = None,
    ) -> None:
        self._machine = machine or Machine(lock_timeout_s, root, settings, execute)
        self.trouble = ""

    # --- looking ---------------------------------------------------------------------------------------------------

    def installed(self, names: Iterable[str]) -> Dict[str, base.Installed]:
        """See `base.Backend`."""
        listed = sorted(set(names))
        if not listed:
            return {}
        # dpkg-query knows patterns of names only.
        asked = [] if any(name.startswith(base.SOURCE) for name in listed) else listed
        found = apt_output.parse_installed(self._machine.packages(*asked))
        return {
            name: package
            for name, package in found.items()
            if (name in listed if ":" in name else asked or base.alike(name, package.source, listed))
        }

    def refresh(self, owner: Optional[str] = None) -> None:
        """See `base.Backend`. Unlike apt-get's own default, an address that does not answer is an error."""
        # One source is read, and the lists of the others are left alone.
        one = {
            "Dir::Etc::SourceList": self._source(owner or ""),
            "Dir::Etc::SourceParts": "-",
            "APT::Get::List-Cleanup": 0,
        }
        words = [
            "apt-get",
            "update",
            "-q",
            *options({"APT::Update::Error-Mode": "any"}),
            *self._machine.settings,
        ]
        self._machine.read_lists([*words, *(options(one) if owner else [])], has_hooks=not owner)

    def agree(self) -> None:
        """See `base.Backend`."""
        with apt_sources.told(self._machine.etc):
            self._machine.ask("apt-get", "indextargets")

    def _authorities(self) -> str:
        words = ("dump", "--no-empty", "--format=%v%n", "Acquire::https::CaInfo")
        return str(self._machine.ask("apt-config", *words).strip())

    def offered(self, names: Iterable[str]) -> base.Offers:
        """See `base.Backend`."""
        listed = sorted(set(names))
        if not listed:
            return {}
        return apt_output.parse_madison(self._machine.ask("apt-cache", "madison", *listed, accept=(0, 100)))

    def prove(self, owner: str, asked: Mapping[str, str]) -> None:
        """See `base.Backend`. The lists that were read are signed."""

    @contextmanager
    def aside(
        self, repositories: Mapping[str, base.Repository], beside_node: bool = False
    ) -> Iterator[base.Backend]:
        """See `base.Backend`."""
        with tempfile.TemporaryDirectory(prefix="gpusmith-apt-") as name:
            folder = Path(name)
            # apt downloads as its own user.
            folder.chmod(0o755)
            for part in ("sources", "preferences", "log", "lists/partial", "cache/archives/partial"):
                (folder / part).mkdir(parents=True)
            if beside_node:
                ours = {file.path for owner in repositories for file in self.pin_files(owner, {})}
                _copy(self._machine.sources, folder / "sources")
                _copy(self._machine.preferences, folder / "preferences", ours)
                # What is known already is not fetched again, and is what there is where a mirror does not answer.
                _copy(self._machine.lists, folder / "lists")
            for owner, repository in repositories.items():
                for file in self.repository_files(owner, repository):
                    (folder / "sources" / file.path.name).write_text(file.text or "", encoding="utf-8")
            settings = {
                "Dir::Etc::SourceParts": folder / "sources",
                "Dir::State::Lists": folder / "lists",
                "Dir::Log": folder / "log",
                "Dir::Cache": folder / "cache",
                "APT::Sandbox::User": "root",
                "Acquire::Languages": "none",
                "Acquire::Retries": 1,
                "Acquire::http::Timeout": 20,
                "Acquire::https::Timeout": 20,
            }
            if authorities := bundle(folder, self._authorities):
                settings["Acquire::https::CaInfo"] = authorities
            if beside_node:
                settings["Dir::Etc::PreferencesParts"] = folder / "preferences"
            else:
                settings.update({"Dir::Etc::SourceList": folder / "none", "Dir::State::status": "/dev/null"})
            asked = Apt(machine=self._machine.aside(folder, options(settings)))
            for owner in repositories if beside_node else ():
                asked.refresh(owner)
            try:
                asked.refresh()
            except base.PackageError as error:
                if not beside_node:
                    raise
                asked.trouble = str(error)
            yield asked

    def owner(self, path: str) -> Optional[str]:
        """See `base.Backend`."""
        # Packages may name the path from before /lib and /usr/lib became one.
        names = {path, path[4:] if path.startswith("/usr/lib") else "/usr" + path}
        found: Optional[str] = apt_output.parse_owner(self._machine.dpkg_query(["-S", *sorted(names)]))
        return found

    def simulate(
        self,
        versions: Mapping[str, str],
        pins: Mapping[str, Sequence[str]],
        released: Sequence[str] = (),
        displaced: Sequence[str] = (),
        reads: bool = False,
    ) -> base.Plan:
        """See `base.Backend`."""
        lost = apt_repair.lost(self._machine)
        with self._as_if(pins, released, lost) as seen:
            words = [*self._machine.get("install"), "--simulate", *seen]
            words += [*exact_words(versions), *_gone_words(displaced)]
            attempt = partial(self._machine.execute, words, base.UPDATE_TIMEOUT_S)
            plan = apt_output.parse_simulation(self._with_lists(attempt) if reads else attempt())
        others = sorted(lost - plan.installed.keys())
        if others:
            raise base.PackageError(
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
    ) -> base.Plan:
        """See `base.Backend`."""
        wanted = [*self._words_of(folder), *_gone_words(displaced)]
        with self._as_if(pins, released) as seen:
            words = [*self._machine.get("install"), "--simulate", *seen, *wanted]
            return apt_output.parse_simulation(self._machine.execute(words, base.UPDATE_TIMEOUT_S))

    @contextmanager
    def _as_if(
        self, pins: Mapping[str, Sequence[str]], released: Sequence[str], gone: Iterable[str] = ()
    ) -> Iterator[List[str]]:
        """Options with which apt sees these pins, no holds of these packages, and others not at all."""
        with tempfile.TemporaryDirectory(prefix="gpusmith-simulation-") as name:
            folder = Path(name)
            # The file stands in for that of an administrator, whose pins count as well.
            main = self._machine.etc / "preferences"
            own = f"{files.read(main)}\n" if main.is_file() else ""
            files.put(folder / "pins.pref", own + apt_files.render_preferences(pins, "a simulation"))
            seen = {"Dir::Etc::Preferences": folder / "pins.pref"}
            if released or gone:
                status = files.read(self._machine.dpkg / "status") or ""
                status = apt_files.without_packages(apt_files.without_holds(status, released), gone)
                files.put(folder / "status", status)
                seen["Dir::State::status"] = folder / "status"
            yield options(seen)

    # --- files -----------------------------------------------------------------------------------------------------

    def _source(self, owner: str) -> Path:
        return Path(self._machine.sources, f"{apt_sources.OURS}{owner}.sources")

    def repository_files(self, owner: str, repository: Optional[base.Repository]) -> List[base.File]:
        """See `base.Backend`."""
        base.refuse_type(repository, owner, self.name, "deb")
        text = apt_files.render_source(repository, owner) if repository else None
        return [base.File(self._source(owner), text)]

    def pin_files(self, owner: str, pins: Mapping[str, Sequence[str]]) -> List[base.File]:
        """See `base.Backend`."""
        text = apt_files.render_preferences(pins, owner) if pins else None
        return [base.File(self._machine.preferences / f"gpusmith-{owner}.pref", text)]

    # --- changing --------------------------------------------------------------------------------------------------

    def hold(self, versions: Mapping[str, str]) -> None:
        """See `base.Backend`."""
        self._machine.mark("hold", versions)

    def release(self, names: Iterable[str]) -> None:
        """See `base.Backend`."""
        self._machine.mark("unhold", names)

    def blocked(self) -> str:
        """See `base.Backend`. Apt keeps back what it cannot upgrade, and upgrades the rest."""
        return ""

    def install(self, versions: Mapping[str, str], displaced: Sequence[str] = (), erase: bool = True) -> None:
        """See `base.Backend`."""
        words = [*self._machine.get("install"), *_kept_words(erase)]
        if apt_repair.lost(self._machine):
            # Apt takes them for installed, and installs what they need only if it is told of all that.
            words.append("--reinstall")
            versions = {**self.simulate(versions, {}, (), displaced).installed, **versions}
        words += [*exact_words(versions), *_gone_words(displaced)]
        self._with_lists(partial(self._machine.change, words))

    def _with_lists(self, attempt: Callable[[], str]) -> str:
        """What an attempt says, with lists that are read anew if it fails by those that are there.

        A fresh image has no lists of the distribution, an old one stale lists: what packages need is then not found.
        """
        try:
            return attempt()
        except base.PackageError as error:
            told = str(error)
            if (
                isinstance(error, base.UnfinishedError)
                or apt_output.LOCKED.search(told)
                or apt_output.UNPACKED.search(told)
            ):
                raise
            self._machine.read_lists(["apt-get", *self._machine.settings, "update", "-q"], accept=range(256))
            return attempt()

    def fetch(self, versions: Mapping[str, str], folder: Path) -> List[base.Saved]:
        """See `base.Backend`."""
        saved: List[base.Saved] = manifests.complete(folder, self.name, versions, self._save)
        return saved

    def _save(self, versions: Mapping[str, str], folder: Path) -> List[base.Saved]:
        offers = self.offered(versions)
        offered = {name: version for name, version in versions.items() if version in offers.get(name, [])}
        for name, version in sorted(versions.items()):
            if name not in offered:
                shutil.copy2(self._cached(name, version), folder)
        if offered:
            words = [
                "apt-get",
                *self._machine.settings,
                "download",
                "-q",
                *options({"APT::Sandbox::User": "root"}),
            ]
            self._machine.execute([*words, *exact_words(offered)], base.INSTALL_TIMEOUT_S, cwd=folder)
        saved = []
        for path in sorted(folder.glob("*.deb")):
            words = ["dpkg-deb", "-W", "--showformat=${Package}\t${Version}", str(path)]
            name, _, version = self._machine.execute(words, 60, accept=(0, 2)).strip().partition("\t")
            if versions.get(name) == version:
                saved.append(base.Saved(name, version, path.name, manifests.digest(path)))
        return saved

    def _cached(self, name: str, version: str) -> Path:
        """The archive that an earlier installation left in apt's cache."""
        cache = Path(self._machine.root, "var/cache/apt/archives")
        # As apt names them. One of the machine's own architecture sorts before a foreign one.
        found = next(iter(sorted(cache.glob(f"{name}_{version.replace(':', '%3a')}_*.deb"))), None)
        if found is None:
            raise base.PackageError(
                f"Neither a repository nor '{cache}' has '{name}' in version '{version}'."
            )
        return found

    def install_from(self, folder: Path, displaced: Sequence[str] = (), erase: bool = True) -> None:
        """See `base.Backend`."""
        wanted = [*self._words_of(folder), *_gone_words(displaced)]
        self._machine.change([*self._machine.get("install"), *_kept_words(erase), *wanted])

    def _words_of(self, folder: Path) -> List[str]:
        """Options and files with which nothing but what a folder has, and what is installed, can be chosen."""
        saved = manifests.read(folder, self.name)
        return [*options(ALONE), *(str((folder / each.file).resolve()) for each in saved)]

    def _would_remove(self, names: Sequence[str]) -> base.Plan:
        # Who holds what would go is told as well.
        return self._simulated_removal("remove", *KEPT, *options({"APT::Ignore-Hold": 1}), *names)

    def _unused_after(self, names: Sequence[str]) -> Set[str]:
        # Apt takes all that nothing needs, whatever it came with.
        before = self._simulated_removal("autoremove").removed
        return set(self._simulated_removal("remove", "--autoremove", *names).removed) - set(before)

    def _simulated_removal(self, verb: str, *words: str) -> base.Plan:
        simulation = [*self._machine.get(verb), "--simulate", "--allow-change-held-packages"]
        return apt_output.parse_simulation(
            self._machine.execute([*simulation, *words], base.UPDATE_TIMEOUT_S)
        )

    def _take_away(self, names: Sequence[str]) -> None:
        self._machine.change([*self._machine.get("remove"), *KEPT, *names])

    def repair(self) -> bool:
        """See `base.Backend`."""
        done: bool = apt_repair.repair(self._machine)
        return done


def _copy(folder: Path, target: Path, without: Iterable[Path] = ()) -> None:
    """Files of a folder, if there is one; times of the lists tell apt what is new."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.is_file() and path.name != "lock" and path not in without:
            shutil.copy2(path, target)


def _kept_words(erase: bool) -> List[str]:
    return [] if erase else ["--no-remove"]


def _gone_words(names: Iterable[str]) -> List[str]:
    return [f"{name}-" for name in sorted(names)]
