"""The backend for dnf 4 and rpm: its programs and files are of `dnf_machine`, its pins and holds of `dnf_locks`, package files of `dnf_archives`."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import (
    base,
    dnf_machine,
    dnf_output,
    dnf_repair,
    manifests,
    rpm,
    versionlock,
)
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.authorities import bundle
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.dnf_archives import Archives
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.dnf_locks import Locks
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.dnf_machine import (
    ALONE,
    AS_READ,
    CHANGING,
    READING,
    WITH_LOCKS,
    Machine,
    as_asked,
    exact_words,
)
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.removals import Removals

# --- what files say ------------------------------------------------------------------------------------------------


def render_repository(repository: base.Repository, owner: str, key: Path) -> str:
    """The repository as dnf's file; each address is a repository of its own, as it is for apt."""
    lines = [f"# Written by gpusmith for {owner}."]
    for number, uri in enumerate(repository.uris, 1):
        lines += [
            f"[{_id(owner)}{'' if number == 1 else f'.{number}'}]",
            f"name=gpusmith {owner}",
            f"baseurl={uri}",
            "enabled=1",
            f"gpgcheck={int(repository.signed in ('packages', 'both'))}",
            f"repo_gpgcheck={int(repository.signed in ('metadata', 'both'))}",
            f"gpgkey=file://{key}",
            # Streams of modules of the distribution do not hide its packages.
            "module_hotfixes=1",
        ]
    return "\n".join(lines) + "\n"


def _id(owner: str) -> str:
    return f"gpusmith-{owner}"


class Dnf(Removals):
    """See `base.Backend` for what its functions do.

    Args:
        lock_timeout_s: how long another program may keep a lock.
        root: of files; another one than / is for tests.
        execute: runs programs, see `programs.run`.
        machine: instead of the one that these describe.
        taken: whose pins count as taken away.
    """

    name = "dnf"

    def __init__(
        self,
        lock_timeout_s: float = base.LOCK_TIMEOUT_S,
        root: Path = Path("/"),
        execute: Callable[..., str] = dnf_machine.run,
        machine: Optional[Machine] = None,
        taken: Sequence[str] = (),
    ) -> None:
        self._machine = machine or Machine(root, execute, lock_timeout_s)
        self._locks = Locks(self._machine)
        self._archives = Archives(self._machine)
        self.pin_files, self.hold, self.release = self._locks.pin_files, self._locks.hold, self._locks.release
        self.blocked, self.prove = self._locks.blocked, self._archives.prove
        self._taken = taken
        self.trouble = ""

    # --- looking ---------------------------------------------------------------------------------------------------

    def installed(self, names: Iterable[str]) -> Dict[str, base.Installed]:
        """See `base.Backend`."""
        listed = sorted(set(names))
        if not listed:
            return {}
        asked = (
            []
            if any(name.startswith(base.SOURCE) for name in listed)
            else [*listed, *rpm.names_of_builds(listed)]
        )
        all_rows = self._machine.installed(asked)
        rows = [row for row in all_rows if base.alike(row.name, row.source, listed)]
        halves = dnf_repair.half_done(self._machine, rows)
        locks = self._locks.listed()
        found: Dict[str, base.Installed] = {}
        for row in rows:
            other = found.get(row.name)
            if row.name not in halves and (other is None or rpm.compare(other.version, row.version) < 0):
                found[row.name] = base.Installed(row.version, locks.holds(row.name, row.version), row.source)
        for row in all_rows:
            if row.build in listed:
                found[row.build] = base.Installed(row.version, locks.holds(row.name, row.version), row.source)
        return found

    def refresh(self, owner: Optional[str] = None) -> None:
        """See `base.Backend`."""
        if owner is not None:
            self._refresh(self._machine.ids(owner))
        elif self._machine.has_repositories():
            self._machine.dnf([*ALONE, *READING], base.UPDATE_TIMEOUT_S)

    def _refresh(self, ours: Sequence[str]) -> None:
        """Read the lists of repositories of ours."""
        for each in ours:
            # The key's file decides anew, not what was taken from it before.
            for folder in self._machine.cache.glob(f"{each}-*/pubring"):
                shutil.rmtree(folder)
        if ours:
            only = ["--disablerepo=*", f"--enablerepo={','.join(ours)}"]
            self._machine.dnf([*ALONE, *READING, *only], base.UPDATE_TIMEOUT_S)

    def agree(self) -> None:
        """See `base.Backend`. Each repository of dnf has its own keys."""

    def offered(self, names: Iterable[str]) -> base.Offers:
        """See `base.Backend`."""
        listed = set(names)
        if not listed:
            return {}
        found: base.Offers = {}
        for row in self._machine.offered(sorted(listed)):
            for name in listed & {row.name, row.build}:
                found.setdefault(name, []).append(row.version)
        return {name: rpm.newest_first(versions) for name, versions in found.items()}

    @contextmanager
    def aside(
        self, repositories: Mapping[str, base.Repository], beside_node: bool = False
    ) -> Iterator[base.Backend]:
        """See `base.Backend`."""
        with tempfile.TemporaryDirectory(prefix="gpusmith-dnf-") as name:
            machine = self._machine.aside(Path(name))
            asked = Dnf(machine=machine, taken=list(repositories) if beside_node else [])
            settings = self._machine.settings().defaults()
            for option in ("sslcacert", "proxy_sslcacert"):
                if authorities := bundle(Path(name), partial(settings.get, option, "")):
                    machine.options.append(f"--setopt={option}={authorities}")
            if beside_node:
                ours = {file.path for owner in repositories for file in self.repository_files(owner, None)}
                for path in self._machine.repositories.glob("*.repo"):
                    if path not in ours:
                        shutil.copy2(path, machine.repositories)
                self._lend_lists(machine.cache, without=list(repositories))
            for owner, repository in repositories.items():
                for file in asked.repository_files(owner, repository):
                    file.path.write_text(file.text or "", encoding="utf-8")
            if not beside_node:
                if repositories:
                    asked.refresh()
                yield asked
                return
            asked._refresh([each for owner in repositories for each in machine.ids(owner)])
            asked.trouble = asked._read_lists()
            yield asked

    def _lend_lists(self, cache: Path, without: Sequence[str]) -> None:
        """What is known already is not fetched again; dnf replaces files of lists, and never writes into them."""
        ours = tuple(_id(owner) + sign for owner in without for sign in "-.")
        for path in self._machine.cache.glob("*"):
            if path.name.startswith(ours) or path.suffix in (".pid", ".json", ".db"):
                continue
            if path.is_dir():
                shutil.copytree(
                    path, cache / path.name, copy_function=_lend, ignore=shutil.ignore_patterns("packages")
                )
            else:
                _lend(path, cache / path.name)

    def _read_lists(self) -> str:
        """Read the lists that are old or missing; why some could not be read."""
        if not self._machine.has_repositories():
            return ""
        try:
            self._machine.dnf(
                [*ALONE, "makecache", "--setopt=*.skip_if_unavailable=0"], base.UPDATE_TIMEOUT_S
            )
        except base.PackageError as error:
            return str(error)
        return ""

    def owner(self, path: str) -> Optional[str]:
        """See `base.Backend`."""
        said = self._machine.execute(["rpm", "-qf", "--qf", "%{NAME}\\n", path], 60, accept=(0, 1))
        names = [line for line in said.splitlines() if " " not in line]
        return names[0] if names else None

    def simulate(
        self,
        versions: Mapping[str, str],
        pins: Mapping[str, Sequence[str]],
        released: Sequence[str] = (),
        displaced: Sequence[str] = (),
        reads: bool = False,
    ) -> base.Plan:
        """See `base.Backend`."""
        attempt = partial(self._simulate, versions, pins, released)
        if not reads:
            return self._beside_removal(attempt(), displaced)
        self._have_lists("--setopt=*.metadata_expire=never")
        try:
            plan = attempt()
        except base.BusyError:
            raise
        except base.PackageError:
            # As for an installation: what these packages need may be in lists that are old.
            self._have_lists("--refresh")
            plan = attempt()
        return self._beside_removal(plan, displaced)

    def _simulate(
        self,
        versions: Mapping[str, str],
        pins: Mapping[str, Sequence[str]],
        released: Sequence[str],
    ) -> base.Plan:
        pinned = self._locks.resolved(pins, {})
        without = [] if self._machine.has_locks() else self._excluded(pinned)
        words = [*AS_READ, "install", *as_asked(), *exact_words(versions)]
        return self._plan([*without, *words], versions, pinned, released)

    def simulate_from(
        self,
        folder: Path,
        pins: Mapping[str, Sequence[str]],
        released: Sequence[str] = (),
        displaced: Sequence[str] = (),
    ) -> base.Plan:
        """See `base.Backend`."""
        versions, words = self._words_of(folder)
        plan = self._plan(
            ["install", *as_asked(), *words], versions, self._locks.resolved(pins, {}), released
        )
        return self._beside_removal(plan, displaced)

    def _plan(
        self,
        words: Sequence[str],
        versions: Mapping[str, str],
        pinned: versionlock.Locks,
        released: Sequence[str],
    ) -> base.Plan:
        """What dnf would do, asked with these words, by pins, and without holds."""
        locks = self._locks.listed()
        for owner in self._taken:
            locks = locks.with_block(owner, {})
        locks = locks.without(released, {}).with_block("a simulation", pinned)
        with self._locks.seen_as(locks, versions) as options:
            said = self._machine.dnf(
                [*options, *WITH_LOCKS, *words, "--assumeno"],
                base.UPDATE_TIMEOUT_S,
                unless=dnf_output.ABORTED,
                yes=False,
            )
        return dnf_output.parse_plan(said, {row.name: row.version for row in self._machine.installed()})

    def _beside_removal(self, plan: base.Plan, displaced: Sequence[str]) -> base.Plan:
        """A plan with what is removed before it is carried out."""
        gone = self.removal(displaced) if displaced else {}
        return plan._replace(removed={**plan.removed, **gone})

    def _have_lists(self, which: str) -> None:
        """Read lists, by an option that says which. Repositories that do not answer are left out, as where packages are installed."""
        if not self._machine.has_repositories():
            return
        words = [*ALONE, "makecache", "--setopt=*.skip_if_unavailable=1", which]
        try:
            self._machine.dnf(words, base.UPDATE_TIMEOUT_S)
        except base.BusyError:
            raise
        except base.PackageError:
            # What is lacking then, a simulation names.
            return

    def _excluded(self, pinned: versionlock.Locks) -> List[str]:
        """Options that do what locks would, where the plugin is not installed yet: then nobody has locked anything."""
        rows = [
            row
            for row in self._machine.offered(sorted(pinned))
            if row.version not in pinned.get(row.name, [row.version])
        ]
        return [f"--exclude={row.name}-{row.version}" for row in rows]

    # --- files -----------------------------------------------------------------------------------------------------

    def repository_files(self, owner: str, repository: Optional[base.Repository]) -> List[base.File]:
        """See `base.Backend`."""
        key = self._machine.key(owner)
        if repository is None:
            return [base.File(self._machine.source(owner), None), base.File(key, None)]
        base.refuse_type(repository, owner, self.name, "rpm")
        return [
            base.File(key, repository.key + "\n"),
            base.File(self._machine.source(owner), render_repository(repository, owner, key)),
        ]

    # --- changing --------------------------------------------------------------------------------------------------

    def install(
        self,
        versions: Mapping[str, str],
        displaced: Sequence[str] = (),
        erase: bool = True,
    ) -> None:
        """See `base.Backend`. Dnf knows of no step that does both."""
        if displaced:
            self.remove(displaced)
        self._machine.need_locks()
        words = [*CHANGING, "install", *as_asked(erase), *exact_words(versions)]
        with self._locks.seen_as(self._locks.listed(), versions) as options:
            try:
                # Lists are read by who asks for it.
                self._machine.dnf(
                    [*options, "--setopt=*.metadata_expire=never", *words], base.INSTALL_TIMEOUT_S
                )
            except (base.BusyError, base.UnfinishedError):
                raise
            except base.PackageError:
                # What these packages need may be in lists that are missing or old.
                self._machine.dnf([*options, "--refresh", *words], base.INSTALL_TIMEOUT_S)
        self._follow(versions)

    def _follow(self, versions: Mapping[str, str]) -> None:
        """Holds of what has been changed go with it; that it was changed is seen, not believed."""
        there = self.installed(versions)
        lacking = [
            name
            for name, version in versions.items()
            if name not in there or (version and there[name].version != version)
        ]
        if lacking:
            raise base.PackageError(
                f"dnf ended without an error, but did not install {', '.join(lacking)} as asked."
            )
        self._locks.follow({name: there[name].version for name in versions})

    def fetch(self, versions: Mapping[str, str], folder: Path) -> List[base.Saved]:
        """See `base.Backend`."""
        saved: List[base.Saved] = manifests.complete(folder, self.name, versions, self._archives.save)
        return saved

    def install_from(self, folder: Path, displaced: Sequence[str] = (), erase: bool = True) -> None:
        """See `base.Backend` and `install`."""
        versions, words = self._words_of(folder)
        if displaced:
            self.remove(displaced)
        with self._locks.seen_as(self._locks.listed(), versions) as options:
            self._machine.dnf([*options, "install", *as_asked(erase), *words], base.INSTALL_TIMEOUT_S)
        self._follow(versions)

    def _words_of(self, folder: Path) -> Tuple[Dict[str, str], List[str]]:
        """Versions by name of what a folder has; options and files with which it comes from there alone."""
        saved = manifests.read(folder, self.name)
        files = [str((folder / each.file).resolve()) for each in saved]
        # They were proved when they were saved, by their repository's rule; the node's rule for other files would refuse unsigned ones.
        alone = ["--disablerepo=*", "--setopt=localpkg_gpgcheck=0"]
        return {each.name: each.version for each in saved}, [*alone, *files]

    def _would_remove(self, names: Sequence[str]) -> base.Plan:
        return self._simulated_removal(names, unused=False)

    def _unused_after(self, names: Sequence[str]) -> Set[str]:
        gone = set(self._simulated_removal(names, unused=True).removed)
        return gone - {name for name, package in self.installed(gone).items() if package.held}

    def _simulated_removal(self, names: Sequence[str], unused: bool) -> base.Plan:
        words = [*ALONE, *_removing(unused), "--assumeno", *names]
        return dnf_output.parse_plan(
            self._machine.dnf(words, base.UPDATE_TIMEOUT_S, unless=dnf_output.ABORTED, yes=False), {}
        )

    def _take_away(self, names: Sequence[str]) -> None:
        # Locks are of what comes. Where their list is missing, the plugin ends all that dnf does with an error.
        words = [*self._machine.without_locks(), *_removing(unused=False), *names]
        self._machine.dnf(words, base.INSTALL_TIMEOUT_S)

    def repair(self) -> bool:
        """See `base.Backend`."""
        done: bool = dnf_repair.repair(self._machine)
        return done


def _lend(source: str | Path, target: str | Path) -> None:
    """The same file at another place; a copy where that cannot be."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _removing(unused: bool) -> List[str]:
    return ["--disablerepo=*", "remove", f"--setopt=clean_requirements_on_remove={int(unused)}"]
