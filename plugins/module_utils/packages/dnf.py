"""The backend for dnf 4 and rpm.

A pin and a hold are the same to dnf: a line of its plugin versionlock, by name and full version. So patterns are resolved to names, and
what is asked for is run with a list of locks of its own, in which it stands already. Dnf is run as a program, since the Python that runs
this need not be the one that has dnf's library. Standard library only, Python 3.8 or newer: it runs on the node.
"""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import configparser
import os
import re
import shutil
import tempfile
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import (
    dnf_output,
    kept,
    programs,
    rpm,
    signatures,
    versionlock,
)
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import folder as folders
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
    Removal,
    Repository,
    Saved,
    alike,
    digest,
    edited,
    read_manifest,
    refuse_others,
    satisfies,
    write_manifest,
)

# Lists as they are on the machine, those of repositories that have none left out.
AS_READ = ("-C", "--setopt=*.skip_if_unavailable=1")
# A repository that does not answer is an error.
READING = ("makecache", "--refresh", "--setopt=*.skip_if_unavailable=0")
# Repositories that do not answer are left out; what was installed can be saved when no repository has it any more.
CHANGING = ("--setopt=*.skip_if_unavailable=1", "--setopt=keepcache=1")
ALONE = ("--disableplugin=*",)
# Of what is offered: size, architecture, and what dnf takes for exactly that.
SIZES = "%{downloadsize} %{arch} %{name} %{evr}"
SAMPLE_BYTES = 4 << 20
# So many builds are tried: some need what only another repository has.
SAMPLES = 6
WITH_LOCKS = ("--disableplugin=*", "--enableplugin=versionlock")
# Where dnf's plugin versionlock is switched off.
SWITCHES = (("etc/dnf/dnf.conf", "plugins"), ("etc/dnf/plugins/versionlock.conf", "enabled"))
# Beginning of the name of a folder that dnf downloads to; dnf notes its files, and deletes them after a later transaction.
DOWNLOADS = "gpusmith-dnf-"
# What rpm calls an edited configuration file of a package that goes.
RPMSAVE = ".rpmsave"
MANNER = programs.Manner({"NEEDRESTART_MODE": "l"}, dnf_output.LOCKED, dnf_output.cause)
run = partial(programs.run, MANNER)

# --- what files say ------------------------------------------------------------------------------------------------


def render_repository(repository: Repository, owner: str, key: Path) -> str:
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
            *([f"gpgkey=file://{key}"] if repository.key else []),
            # Streams of modules of the distribution do not hide its packages.
            "module_hotfixes=1",
        ]
    return "\n".join(lines) + "\n"


def _id(owner: str) -> str:
    return f"gpusmith-{owner}"


class Dnf:
    """See `base.Backend` for what its functions do.

    Args:
        lock_timeout_s: how long another program may keep a lock.
        root: of files; another one than / is for tests.
        execute: runs programs, see `programs.run`.
        place: an empty folder to have repositories, keys and lists in, instead of the machine's own.
        taken: whose pins count as taken away.
    """

    name = "dnf"

    def __init__(
        self,
        lock_timeout_s: float = LOCK_TIMEOUT_S,
        root: Path = Path("/"),
        execute: Callable[..., str] = run,
        place: Optional[Path] = None,
        taken: Sequence[str] = (),
    ) -> None:
        self._lock_timeout_s = lock_timeout_s
        self._execute = execute
        self._root = root
        self._repositories = root / "etc/yum.repos.d"
        self._keys = root / "etc/pki/rpm-gpg"
        self._plugins = root / "etc/dnf/plugins"
        self._locks = root / versionlock.PATH
        self._cache = root / "var/cache/dnf"
        self._options: List[str] = []
        self._taken = taken
        self._alone = False
        self.trouble = ""
        if place is not None:
            self._repositories, self._keys, self._cache = (
                place / part for part in ("repositories", "keys", "cache")
            )
            places = {
                "reposdir": self._repositories,
                "cachedir": self._cache,
                "logdir": place / "log",
                "persistdir": place / "state",
            }
            for folder in (*places.values(), self._keys):
                folder.mkdir()
            self._options = [f"--setopt={option}={path}" for option, path in places.items()]
            self._options += ["--setopt=*.timeout=20", "--setopt=*.retries=1"]

    # --- looking ---------------------------------------------------------------------------------------------------

    def installed(self, names: Iterable[str]) -> Dict[str, Installed]:
        """See `base.Backend`."""
        listed = sorted(set(names))
        if not listed:
            return {}
        asked = (
            [] if any(name.startswith(SOURCE) for name in listed) else [*listed, *rpm.names_of_builds(listed)]
        )
        all_rows = self._rows(asked)
        rows = [row for row in all_rows if alike(row.name, row.source, listed)]
        halves = self._half_done(rows)
        locks = self._listed()
        found: Dict[str, Installed] = {}
        for row in rows:
            other = found.get(row.name)
            if row.name not in halves and (other is None or rpm.compare(other.version, row.version) < 0):
                found[row.name] = Installed(row.version, locks.holds(row.name, row.version), row.source)
        for row in all_rows:
            if row.build in listed:
                found[row.build] = Installed(row.version, locks.holds(row.name, row.version), row.source)
        return found

    def _rows(self, patterns: Sequence[str]) -> List[rpm.Row]:
        rows: List[rpm.Row] = rpm.parse_rows(
            self._execute(["rpm", "-qa", "--qf", rpm.INSTALLED, *patterns], 60)
        )
        return rows

    def _half_done(self, rows: Sequence[rpm.Row]) -> List[str]:
        """Names of which a killed transaction has left two versions."""
        names = sorted(rpm.twice(rows))
        if not names:
            return []
        words = ["rpm", "-q", "--qf", "[%{=NAME}\\t%{PROVIDENAME}\\n]", *names]
        pairs = [line.split("\t") for line in self._execute(words, 60).splitlines()]
        beside = {pair[0] for pair in pairs if rpm.SIDE_BY_SIDE.match(pair[-1])}
        return [name for name in names if name not in beside]

    def refresh(self, owner: Optional[str] = None) -> None:
        """See `base.Backend`."""
        if owner is not None:
            self._refresh(self._ids(owner))
        elif any(self._repositories.glob("*.repo")):
            self._dnf([*ALONE, *READING], UPDATE_TIMEOUT_S)

    def _refresh(self, ours: Sequence[str]) -> None:
        """Read the lists of repositories of ours."""
        for each in ours:
            # The key's file decides anew, not what was taken from it before.
            for folder in self._cache.glob(f"{each}-*/pubring"):
                shutil.rmtree(folder)
        if ours:
            only = ["--disablerepo=*", f"--enablerepo={','.join(ours)}"]
            self._dnf([*ALONE, *READING, *only], UPDATE_TIMEOUT_S)

    def _ids(self, owner: str) -> List[str]:
        """What dnf calls an owner's repositories."""
        path = self._source(owner)
        return (
            re.findall(r"^\[(.+)\]$", path.read_text(encoding="utf-8"), re.MULTILINE)
            if path.is_file()
            else []
        )

    def _offered_rows(self, patterns: Sequence[str]) -> List[rpm.Row]:
        if not any(self._repositories.glob("*.repo")):
            return []
        words = ["-q", *ALONE, *AS_READ, "repoquery", "--qf", rpm.OFFERED, *patterns]
        rows: List[rpm.Row] = rpm.parse_rows(self._dnf(words, 60))
        return rows

    def agree(self) -> None:
        """See `base.Backend`. Each repository of dnf has its own keys."""

    def offered(self, names: Iterable[str]) -> Offers:
        """See `base.Backend`."""
        listed = set(names)
        if not listed:
            return {}
        found: Offers = {}
        for row in self._offered_rows(sorted(listed)):
            for name in listed & {row.name, row.build}:
                found.setdefault(name, []).append(row.version)
        return {name: rpm.newest_first(versions) for name, versions in found.items()}

    def prove(self, owner: str, asked: Mapping[str, str]) -> None:
        """See `base.Backend`."""
        key = self._key(owner)
        ours = [each for each in self._ids(owner) if self._are_signed(each)]
        if not ours or not asked or not key.is_file():
            return
        words = ["-q", *ALONE, *AS_READ, *(f"--repo={each}" for each in ours), "repoquery", "--qf", SIZES]
        sample = self._sample(asked, [line.split() for line in self._dnf(words, 60).splitlines()])
        if not sample:
            return
        with tempfile.TemporaryDirectory(prefix="gpusmith-dnf-") as name:
            words = [*ALONE, "--downloadonly", f"--destdir={name}", "--setopt=*.gpgcheck=0"]
            try:
                self._dnf([*words, "install", *_as_asked(False), sample], UPDATE_TIMEOUT_S)
            except PackageError:
                return
            # What it needs comes along, from the same repository.
            keys = [key.read_text(encoding="utf-8")]
            signatures.check(sorted(Path(name).glob("*.rpm")), keys, self._execute)

    def _sample(self, asked: Mapping[str, str], rows: Sequence[Sequence[str]]) -> str:
        """The smallest build that can be had with little else, of what is asked for or in a version of it; empty if there is none."""
        sizes = sorted(
            (int(size), f"{name}-{evr}.{arch}")
            for size, arch, name, evr in (row for row in rows if len(row) == 4)
            if arch in _arches() and _is_alike(name, evr, asked)
        )
        for size, build in sizes[:SAMPLES]:
            if size <= SAMPLE_BYTES and self._total([*_as_asked(False), build]) <= SAMPLE_BYTES:
                return build
        return ""

    def _total(self, builds: Sequence[str]) -> float:
        """Bytes that an installation would bring; infinite where nobody can tell."""
        said = self._dnf(
            [*ALONE, "--assumeno", "install", *builds], UPDATE_TIMEOUT_S, accept=(0, 1), yes=False
        )
        total: float = dnf_output.total_bytes(said)
        return total

    def members(self, patterns: Sequence[str], version: str) -> Dict[str, str]:
        """See `base.Backend`."""
        found: Offers = {}
        for row in self._candidates(patterns):
            if satisfies(row.version, version):
                found.setdefault(row.name, []).append(row.version)
        return {
            name: version if version in fitting else rpm.newest_first(fitting)[0]
            for name, fitting in found.items()
        }

    def _candidates(self, patterns: Sequence[str]) -> List[rpm.Row]:
        """What repositories offer by shell patterns."""
        asked = [] if any(pattern.startswith(SOURCE) for pattern in patterns) else sorted(patterns)
        return [row for row in self._offered_rows(asked) if alike(row.name, row.source, patterns)]

    @contextmanager
    def aside(self, repositories: Mapping[str, Repository], beside_node: bool = False) -> Iterator[Backend]:
        """See `base.Backend`."""
        with tempfile.TemporaryDirectory(prefix="gpusmith-dnf-") as name:
            taken = list(repositories) if beside_node else []
            asked = Dnf(self._lock_timeout_s, self._root, self._execute, Path(name), taken)
            for option in ("sslcacert", "proxy_sslcacert"):
                if authorities := bundle(Path(name), partial(self._settings().defaults().get, option, "")):
                    asked._options.append(f"--setopt={option}={authorities}")
            if beside_node:
                ours = {file.path for owner in repositories for file in self.repository_files(owner, None)}
                for path in self._repositories.glob("*.repo"):
                    if path not in ours:
                        shutil.copy2(path, asked._repositories)
                self._lend_lists(asked._cache, without=list(repositories))
            for owner, repository in repositories.items():
                for file in asked.repository_files(owner, repository):
                    file.path.write_text(file.text or "", encoding="utf-8")
            if not beside_node:
                if repositories:
                    asked.refresh()
                yield asked
                return
            asked._refresh([each for owner in repositories for each in asked._ids(owner)])
            asked.trouble = asked._read_lists()
            yield asked

    def _lend_lists(self, cache: Path, without: Sequence[str]) -> None:
        """What is known already is not fetched again; dnf replaces files of lists, and never writes into them."""
        ours = tuple(_id(owner) + sign for owner in without for sign in "-.")
        for path in self._cache.glob("*"):
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
        if not any(self._repositories.glob("*.repo")):
            return ""
        try:
            self._dnf([*ALONE, "makecache", "--setopt=*.skip_if_unavailable=0"], UPDATE_TIMEOUT_S)
        except PackageError as error:
            return str(error)
        return ""

    def only(self, owner: str) -> Backend:
        """See `base.Backend`."""
        alone, ours = Dnf(self._lock_timeout_s, self._root, self._execute), self._ids(owner)
        vars(alone).update(vars(self))
        alone._alone = True
        alone._options = [*self._options, "--disablerepo=*"]
        alone._options += [f"--enablerepo={','.join(ours)}"] if ours else []
        return alone

    def owner(self, path: str) -> Optional[str]:
        """See `base.Backend`."""
        said = self._execute(["rpm", "-qf", "--qf", "%{NAME}\\n", path], 60, accept=(0, 1))
        names = [line for line in said.splitlines() if " " not in line]
        return names[0] if names else None

    def simulate(
        self, versions: Mapping[str, str], pins: Mapping[str, Sequence[str]], released: Sequence[str] = ()
    ) -> Plan:
        """See `base.Backend`."""
        locks = self._listed()
        for owner in self._taken:
            locks = locks.with_block(owner, {})
        pinned = self._resolved(pins, {})
        locks = locks.without(released, {}).with_block("a simulation", pinned)
        has_locks = _has_plugin(self._root, "versionlock")
        without = [] if has_locks else self._excluded(pinned)
        words = [*WITH_LOCKS, *AS_READ, "install", "--assumeno", *_as_asked(False), *_exact_words(versions)]
        if self._alone and not has_locks:
            # It has to come from there, too.
            words.append("dnf-command(versionlock)")
        with self._locks_as(locks, versions) as options:
            said = self._dnf(
                [*options, *without, *words], UPDATE_TIMEOUT_S, unless=dnf_output.ABORTED, yes=False
            )
        return dnf_output.parse_plan(said, {row.name: row.version for row in self._rows([])})

    def _excluded(self, pinned: versionlock.Locks) -> List[str]:
        """Options that do what locks would, where the plugin is not installed yet: then nobody has locked anything."""
        rows = [
            row
            for row in self._offered_rows(sorted(pinned))
            if row.version not in pinned.get(row.name, [row.version])
        ]
        return [f"--exclude={row.name}-{row.version}" for row in rows]

    # --- files -----------------------------------------------------------------------------------------------------

    def _source(self, owner: str) -> Path:
        return self._repositories / f"gpusmith-{owner}.repo"

    def _key(self, owner: str) -> Path:
        return self._keys / f"gpusmith-{owner}.asc"

    def repository_files(self, owner: str, repository: Optional[Repository]) -> List[File]:
        """See `base.Backend`."""
        key = self._key(owner)
        if repository is None:
            return [File(self._source(owner), None), File(key, None)]
        if repository.type != "rpm":
            raise PackageError(
                f"The repository of '{owner}' is of type '{repository.type}', and dnf reads repositories of type 'rpm'. "
                "Name one of these for the machine, with 'type: rpm'."
            )
        return [
            File(key, repository.key + "\n" if repository.key else None),
            File(self._source(owner), render_repository(repository, owner, key)),
        ]

    def pin_files(self, owner: str, pins: Mapping[str, Sequence[str]]) -> List[File]:
        """See `base.Backend`."""
        text = self._locks_text()
        locks = versionlock.read(text or "")
        if text is None and not pins:
            return []
        there = {row.name for row in self._there()}
        # What is held is there. Pins whose comments another program left out look like holds, too.
        held = {name: each for name, each in locks.ours.get(versionlock.HELD, {}).items() if name in there}
        locks = locks.with_block(versionlock.HELD, held)
        locks = locks.with_block(owner, self._resolved(pins, locks.ours.get(owner, {})))
        return [File(self._locks, locks.render())]

    def _resolved(self, pins: Mapping[str, Sequence[str]], before: versionlock.Locks) -> versionlock.Locks:
        """Pins by name: patterns stand for what is offered or installed of their versions, and what was found so before."""
        patterns = [name for name in pins if name.startswith(SOURCE) or re.search(r"[*?[]", name)]
        found: versionlock.Locks = {
            name: list(versions) for name, versions in pins.items() if name not in patterns
        }
        if not patterns:
            return found
        allowed = sorted({version for pattern in patterns for version in pins[pattern]})
        upstream = {rpm.split(version)[1] for version in allowed}
        known: Dict[str, List[str]] = {name: list(versions) for name, versions in before.items()}
        there = [row for row in self._there() if alike(row.name, row.source, patterns)]
        for row in [*self._candidates(patterns), *there]:
            known.setdefault(row.name, []).append(row.version)
        for name, versions in known.items():
            # Parts of one set can have releases and epochs of their own.
            fitting = [each for each in versions if rpm.split(each)[1] in upstream]
            exact = [each for each in fitting if each in allowed]
            if fitting and name not in found:
                here = [row.version for row in there if row.name == name and row.version in fitting]
                found[name] = exact[:1] or here[:1] or rpm.newest_first(fitting)[:1]
        return found

    def _there(self) -> List[rpm.Row]:
        """All installed packages."""
        return self._rows([])

    # --- locks -----------------------------------------------------------------------------------------------------

    def _locks_text(self) -> Optional[str]:
        return self._locks.read_text(encoding="utf-8") if self._locks.is_file() else None

    def _listed(self) -> versionlock.Listed:
        return versionlock.read(self._locks_text() or "")

    def _write_locks(self, locks: versionlock.Listed) -> None:
        """Replace the list at once; without the file dnf's plugin breaks all that dnf does."""
        text = locks.render()
        if text == self._locks_text():
            return
        self._locks.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._locks.with_name(f".{self._locks.name}.new")
        temporary.write_text(text, encoding="utf-8")
        temporary.chmod(0o644)
        temporary.replace(self._locks)

    @contextmanager
    def _locks_as(self, locks: versionlock.Listed, versions: Mapping[str, str]) -> Iterator[List[str]]:
        """Options with which dnf sees these locks, and allows these versions."""
        exact = {name: version for name, version in versions.items() if version}
        self._refuse_hindered(locks, exact)
        locks = locks.without(exact, exact).with_block(
            "what is asked", {name: [each] for name, each in exact.items()}
        )
        with tempfile.TemporaryDirectory(prefix="gpusmith-locks-") as name:
            folder = Path(name)
            for path in self._plugins.glob("*.conf"):
                shutil.copy2(path, folder)
            (folder / "locks").write_text(locks.render(), encoding="utf-8")
            (folder / "versionlock.conf").write_text(
                f"[main]\nenabled=1\nlocklist={folder}/locks\n", encoding="utf-8"
            )
            yield [f"--setopt=pluginconfpath={folder}"]

    def _refuse_hindered(self, locks: versionlock.Listed, versions: Mapping[str, str]) -> None:
        """Lines of others count, and stay."""
        for name, version in versions.items():
            line = locks.hinders(name, version)
            if line is not None:
                raise PackageError(
                    f"'{line}' in '{self._locks}', which is not ours, locks '{name}' at another version than '{version}'. "
                    f"Take it out ('dnf versionlock delete {name}') if it may go, or ask for the version that it has."
                )

    def hold(self, versions: Mapping[str, str]) -> None:
        """See `base.Backend`."""
        if not versions:
            return
        self._have_locks_read()
        locks = self._listed()
        self._refuse_hindered(locks, versions)
        held = dict(locks.without(versions, {}).ours.get(versionlock.HELD, {}))
        held.update({name: [version] for name, version in versions.items()})
        self._write_locks(locks.without(versions, versions).with_block(versionlock.HELD, held))

    def _have_locks_read(self) -> None:
        """Nothing is held by lines that dnf does not read."""
        self._need("versionlock")
        for path, option in SWITCHES:
            file = self._root / path
            text = file.read_text(encoding="utf-8") if file.is_file() else ""
            if re.search(rf"(?mi)^\s*{option}\s*=\s*(?:0|no|false|off)\s*$", text):
                raise PackageError(
                    f"'/{path}' has '{option}' switched off, so dnf reads no locks, and would replace what has to stay. "
                    f"Set '{option}=1' there."
                )

    def release(self, names: Iterable[str]) -> None:
        """See `base.Backend`."""
        locks = self._listed()
        listed = set(names)
        held = {
            name: each for name, each in locks.ours.get(versionlock.HELD, {}).items() if name not in listed
        }
        if held != locks.ours.get(versionlock.HELD, {}):
            self._write_locks(locks.with_block(versionlock.HELD, held))

    def blocked(self) -> str:
        """See `base.Backend`. With best=True dnf upgrades nothing if one package's best version cannot be had."""
        if not any(self._repositories.glob("*.repo")):
            return ""
        locks = self._listed()
        told = self._upgrade_error(locks)
        if not told or self._upgrade_error(versionlock.Listed(locks.others, {})):
            return ""
        names = sorted(
            dnf_output.best_candidates(told) - {name for block in locks.ours.values() for name in block}
        )
        return (
            f"'dnf upgrade' of the whole node fails while our packages are held, since {', '.join(names) or 'another package'} "
            "needs newer ones. Until they are upgraded, run 'dnf upgrade --nobest', which leaves it out."
        )

    def _upgrade_error(self, locks: versionlock.Listed) -> str:
        with self._locks_as(locks, {}) as options:
            try:
                self._dnf(
                    [*options, *WITH_LOCKS, *AS_READ, "upgrade", "--assumeno"],
                    UPDATE_TIMEOUT_S,
                    unless=dnf_output.ABORTED,
                    yes=False,
                )
            except BusyError:
                return ""
            except PackageError as error:
                return str(error)
        return ""

    # --- changing --------------------------------------------------------------------------------------------------

    def install(
        self, versions: Mapping[str, str], recommends: bool = False, displaced: Sequence[str] = ()
    ) -> None:
        """See `base.Backend`. Dnf knows of no step that does both."""
        if displaced:
            self.remove(displaced)
        self._need("versionlock")
        words = [*CHANGING, "install", *_as_asked(recommends), *_exact_words(versions)]
        with self._locks_as(self._listed(), versions) as options:
            try:
                # Lists are read by who asks for it.
                self._dnf([*options, "--setopt=*.metadata_expire=never", *words], INSTALL_TIMEOUT_S)
            except BusyError:
                raise
            except PackageError:
                # What these packages need may be in lists that are missing or old.
                self._dnf([*options, "--refresh", *words], INSTALL_TIMEOUT_S)
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
            raise PackageError(
                f"dnf ended without an error, but did not install {', '.join(lacking)} as asked."
            )
        locks = self._listed()
        held = locks.ours.get(versionlock.HELD, {})
        moved = {
            name: there[name].version
            for name in versions
            if name in held and held[name] != [there[name].version]
        }
        if moved:
            self.hold(moved)

    def _need(self, *commands: str) -> None:
        """Bring commands of dnf that are packages of their own on some systems."""
        lacking = [command for command in commands if not _has_plugin(self._root, command)]
        if lacking:
            self._dnf(["install", *(f"dnf-command({command})" for command in lacking)], INSTALL_TIMEOUT_S)

    def fetch(self, versions: Mapping[str, str], folder: Path) -> List[Saved]:
        """See `base.Backend`."""
        try:
            there: List[Saved] = read_manifest(folder, self.name)
        except PackageError:
            there = []
        if {each.name: each.version for each in there} == dict(versions):
            return there
        folder.mkdir(parents=True, exist_ok=True)
        for path in [folder / MANIFEST, *folder.glob("*.rpm")]:
            if path.exists():
                path.unlink()
        for killed in folder.glob(f"{DOWNLOADS}*"):
            shutil.rmtree(killed)
        offered = {
            (row.name, row.version): row
            for row in self._offered_rows(sorted(versions))
            if row.name in versions
        }
        places = {wanted: row.place for wanted, row in offered.items()}
        for name, version in sorted(versions.items()):
            if (name, version) not in offered:
                path, places[name, version] = self._cached(name, version)
                shutil.copy2(path, folder)
        with tempfile.TemporaryDirectory(prefix=DOWNLOADS, dir=str(folder)) as name:
            self._download([row for wanted, row in offered.items() if wanted in versions.items()], Path(name))
            for path in Path(name).glob("*.rpm"):
                path.replace(folder / path.name)
        ours = [path for arch in _arches() for path in sorted(folder.glob(f"*.{arch}.rpm"))]
        saved = [each for each in map(self._saved, ours) if each[:2] in versions.items()]
        lacking = sorted(set(versions) - {each.name for each in saved})
        if lacking:
            raise PackageError(
                f"dnf did not save {', '.join(lacking)} in '{folder}'. Look at the space there."
            )
        for path in folder.glob("*.rpm"):
            if path.name not in {each.file for each in saved}:
                path.unlink()
        self._check_signatures(
            [folder / each.file for each in saved if self._are_signed(places[each.name, each.version])]
        )
        write_manifest(folder, self.name, saved)
        return saved

    def _download(self, rows: Sequence[rpm.Row], folder: Path) -> None:
        """Save packages as if to install them, or to install them anew: dnf's own command for it comes with a package that may not be there.

        What they need comes along. Locks are not read: these are full versions, and nothing is installed.
        """
        there = {_nevra(row) for row in self._rows([])}
        here = [_nevra(row) for row in rows if _nevra(row) in there]
        coming = [_nevra(row) for row in rows if _nevra(row) not in there]
        # Signatures are looked at afterwards, by the repository's rule, so that dnf takes no key for it.
        words = [*ALONE, "--downloadonly", f"--destdir={folder}", "--setopt=*.metadata_expire=never"]
        words += ["--setopt=*.skip_if_unavailable=1", "--setopt=*.gpgcheck=0"]
        if here:
            self._dnf([*words, "reinstall", *here], INSTALL_TIMEOUT_S)
        if coming:
            self._dnf([*words, "install", *_as_asked(False), *coming], INSTALL_TIMEOUT_S)

    def _saved(self, path: Path) -> Saved:
        words = ["rpm", "-qp", "--nosignature", "--qf", rpm.INSTALLED, str(path)]
        row = rpm.parse_rows(self._execute(words, 60))[0]
        return Saved(row.name, row.version, path.name, digest(path))

    def _settings(self) -> configparser.ConfigParser:
        """Repositories of the files, with what the main file says as their defaults."""
        found = configparser.ConfigParser(interpolation=None, strict=False, default_section="main")
        for path in [self._root / "etc/dnf/dnf.conf", *sorted(self._repositories.glob("*.repo"))]:
            with suppress(configparser.Error):
                found.read(path, encoding="utf-8")
        return found

    def _are_signed(self, repository: str) -> bool:
        """Whether packages of a repository have to be signed."""
        settings = self._settings()
        section = repository if settings.has_section(repository) else "main"
        said = settings.get(section, "gpgcheck", fallback="0").strip().lower()
        return said in ("1", "true", "yes", "on")

    def _check_signatures(self, files: Sequence[Path]) -> None:
        if not files:
            return
        keys = self._execute(["rpm", "-q", rpm.KEYS, "--qf", "%{DESCRIPTION}\\n"], 60, accept=(0, 1))
        texts = [keys] if "BEGIN PGP" in keys else []
        settings = self._settings()
        for section in settings.sections():
            for uri in settings.get(section, "gpgkey", fallback="").split():
                path = Path(uri[len("file://") :])
                if uri.startswith("file://") and path.is_file():
                    texts.append(path.read_text(encoding="utf-8", errors="replace"))
        signatures.check(files, texts, self._execute)

    def _cached(self, name: str, version: str) -> Tuple[Path, str]:
        """The archive that an earlier installation left in dnf's cache, or came from in a folder of the site; and its repository."""
        _, plain, release = rpm.split(version)
        places = [self._cache, self._root / "var/cache/dnf"]
        found = [
            path
            for place in places
            for arch in _arches()
            for path in place.glob(f"*/packages/{name}-{plain}-{release}.{arch}.rpm")
        ]
        if found:
            return found[0], found[0].parent.parent.name.rpartition("-")[0]
        for arch in _arches():
            kept = folders.archive(f"{name}-{plain}-{release}.{arch}.rpm")
            if kept:
                return kept, f"gpusmith-{kept.parent.parent.name}"
        raise PackageError(f"Neither a repository nor '{places[-1]}' has '{name}' in version '{version}'.")

    def install_from(self, folder: Path, displaced: Sequence[str] = ()) -> None:
        """See `base.Backend` and `install`."""
        saved = read_manifest(folder, self.name)
        if displaced:
            self.remove(displaced)
        versions = {each.name: each.version for each in saved}
        files = [str((folder / each.file).resolve()) for each in saved]
        # They were proved when they were saved, by their repository's rule; the node's rule for other files would refuse unsigned ones.
        alone = ["--disablerepo=*", "--setopt=localpkg_gpgcheck=0"]
        with self._locks_as(self._listed(), versions) as options:
            self._dnf([*options, *alone, "install", *_as_asked(False), *files], INSTALL_TIMEOUT_S)
        self._follow(versions)

    def remains(self, names: Iterable[str]) -> List[str]:  # noqa: ARG002 - of the protocol
        """See `base.Backend`. Rpm takes what nobody edited, and forgets the rest."""
        return []

    def removal(
        self,
        names: Iterable[str],
        unused: bool = False,
        purge: bool = False,  # noqa: ARG002 - likewise
    ) -> Removal:
        """See `base.Backend`. Rpm itself keeps what somebody edited."""
        listed = sorted(set(names))
        if not listed:
            return Removal({}, {})
        plan = self._simulate_removal(listed, unused=False)
        refuse_others(plan, listed)
        gone: Dict[str, str] = plan.removed
        if unused:
            more = set(self._simulate_removal(listed, unused=True).removed) - set(gone)
            more -= {name for name, package in self.installed(more).items() if package.held}
            if more:
                return self.removal([*listed, *more])
        return Removal(gone, {path: path + RPMSAVE for path in self._edited(gone)})

    def _simulate_removal(self, names: Sequence[str], unused: bool) -> Plan:
        words = [*ALONE, *_removing(unused), "--assumeno", *names]
        return dnf_output.parse_plan(
            self._dnf(words, UPDATE_TIMEOUT_S, unless=dnf_output.ABORTED, yes=False), {}
        )

    def _edited(self, names: Iterable[str]) -> List[str]:
        """Configuration files of installed packages that somebody edited."""
        listed = sorted(names)
        if not listed:
            return []
        # Status 1 only says that something differs.
        words = ["rpm", "--verify", "--configfiles", "--nodeps", "--noscripts", *listed]
        found: List[str] = edited(self._execute(words, UPDATE_TIMEOUT_S, accept=range(256)))
        return found

    def remove(self, names: Iterable[str], unused: bool = False, purge: bool = False) -> Removal:
        """See `base.Backend`."""
        told = self.removal(names, unused, purge)
        if told.packages:
            self.release(told.packages)
            self._dnf([*_removing(unused=False), *sorted(told.packages)], INSTALL_TIMEOUT_S)
        return told._replace(kept=kept.there(self._root, told.kept))

    def repair(self) -> bool:
        """See `base.Backend`.

        A killed transaction leaves packages in two versions, since the old ones go at its end, or one whose scripts did not end.
        """
        rows = self._rows([])
        last = self._dnf(["-q", *ALONE, "history", "info", "last"], 60, accept=(0, 1))
        # Two versions that no killed transaction has left are a site's own matter.
        if not dnf_output.is_unfinished(last):
            return False
        halves, begun = self._half_done(rows), dnf_output.begun(last)
        if not halves and not begun:
            return False
        # By the order of their coming: a version that is newer may be the one that was to go.
        kept = {row.name: row for row in sorted(rows, key=lambda row: int(row.place))}
        older = [_nevra(row) for row in rows if row.name in halves and row != kept[row.name]]
        if older:
            words = ["rpm", "--erase", "--nodeps", *older]
            self._execute(words, INSTALL_TIMEOUT_S, lock_timeout_s=self._lock_timeout_s)
        again = sorted(_nevra(row) for row in kept.values() if row.name in halves or _nevra(row) in begun)
        return self._run_scripts_of(again) or bool(older)

    def _run_scripts_of(self, builds: Sequence[str]) -> bool:
        """Whether they could be run. Where no repository has a package, what they do is missed by who looks at the outcome."""
        words = [*ALONE, "--setopt=*.metadata_expire=never", *CHANGING, "reinstall", *builds]
        try:
            if builds:
                self._dnf(words, INSTALL_TIMEOUT_S)
        except BusyError:
            raise
        except PackageError:
            return False
        return bool(builds)

    # --- programs --------------------------------------------------------------------------------------------------

    def _dnf(
        self,
        words: Sequence[str],
        timeout_s: float,
        accept: Sequence[int] = (0,),
        unless: str = "",
        yes: bool = True,
    ) -> str:
        general = ["dnf", *(["-y"] if yes else []), "--setopt=exit_on_lock=1", *self._options]
        return self._execute(
            [*general, *words], timeout_s, accept=accept, unless=unless, lock_timeout_s=self._lock_timeout_s
        )


def _has_plugin(root: Path, command: str) -> bool:
    """Whether a command of dnf is there."""
    return any(root.glob(f"usr/lib/python3*/*-packages/dnf-plugins/{command}.py"))


def _arches() -> Tuple[str, str]:
    """Of packages that this machine runs; repositories have others under the same names and versions."""
    return os.uname().machine, "noarch"


def _nevra(row: rpm.Row) -> str:
    return f"{row.name}-{row.version}.{row.arch}"


def _lend(source: str | Path, target: str | Path) -> None:
    """The same file at another place; a copy where that cannot be."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _removing(unused: bool) -> List[str]:
    return ["--disablerepo=*", "remove", f"--setopt=clean_requirements_on_remove={int(unused)}"]


def _is_alike(name: str, version: str, asked: Mapping[str, str]) -> bool:
    """Whether a package is asked for, or was made with what is: it has the version of that."""
    if name in asked:
        return not asked[name] or satisfies(version, asked[name])
    return any(satisfies(version, want) for want in asked.values() if want)


def _as_asked(recommends: bool) -> List[str]:
    """Options with which nothing but what is asked for decides."""
    return ["--allowerasing", "--setopt=best=0", f"--setopt=install_weak_deps={int(recommends)}"]


def _exact_words(versions: Mapping[str, str]) -> List[str]:
    return [f"{name}-{version}" if version else name for name, version in sorted(versions.items())]
