"""What every package manager has to do for us, and what is the same for all of them.

The protocol is written for apt and dnf alike:

- Holds name full versions, since dnf locks versions. One name per line: a lock by pattern makes other packages uninstallable.
- Pins and repositories are files that a backend renders from what is there, so that it can keep the lines of an administrator.
- Holds and pins are set before an install as well, since dependencies without a version otherwise bring the newest one.
- A set has one full version, revision included: two repositories can share names and the upstream version.
"""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import fnmatch
from pathlib import Path
from typing import (
    ContextManager,
    Dict,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Protocol,
    Sequence,
    Tuple,
)

from ansible_collections.gpusmith.gpu.plugins.module_utils import files

INSTALL_TIMEOUT_S = 1800
UPDATE_TIMEOUT_S = 300
# How long another program may keep the package manager's lock; unattended upgrades hold it for minutes.
LOCK_TIMEOUT_S = 300
# Full versions by name of package, newest first.
Offers = Dict[str, List[str]]


class PackageError(Exception):
    """The package manager cannot do what was asked; the text says what and what to look at."""

    def __init__(self, text: str) -> None:
        # It may name a line of a file that is not UTF-8.
        super().__init__(files.shown(text))


class BusyError(PackageError):
    """Another program has the package manager's lock."""


class UnfinishedError(PackageError):
    """A program did not end in time, and may have left something half done: it is not tried again."""


class Installed(NamedTuple):
    """A package whose files are all there.

    Attributes:
        version: full, with epoch and revision.
        held: whether upgrades leave it alone.
        source: name of the source package that it was built from.
    """

    version: str
    held: bool
    source: str = ""


class Plan(NamedTuple):
    """What a package manager would do. Apt's packages of a foreign architecture are named with it, as 'libcuda1:i386'.

    Attributes:
        installed: full version by name of what is new.
        changed: version before and after by name.
        removed: version by name of what would go.
    """

    installed: Dict[str, str]
    changed: Dict[str, Tuple[str, str]]
    removed: Dict[str, str]


class File(NamedTuple):
    """A file of ours, as it has to be.

    Attributes:
        path: where it is.
        text: its content; None if it has to be absent.
    """

    path: Path
    text: Optional[str]


class Saved(NamedTuple):
    """A package's archive in a folder.

    Attributes:
        name: of the package.
        version: full.
        file: name in the folder.
        sha256: of the file.
    """

    name: str
    version: str
    file: str
    sha256: str


class Repository(NamedTuple):
    """A repository that is signed.

    Attributes:
        uris: base addresses.
        suites: apt's suites; other package managers ignore them.
        components: apt's components; other package managers ignore them.
        key: armored public key that signs it.
        type: 'deb' or 'rpm'.
        signed: what is signed and has to be: 'packages', 'metadata' or 'both'.
    """

    uris: Sequence[str]
    suites: Sequence[str]
    components: Sequence[str]
    key: str
    type: str = "deb"
    signed: str = "metadata"


class Backend(Protocol):
    """One package manager. All of it raises PackageError.

    Attributes:
        name: of the package manager.
        trouble: why repositories of the node could not be read that `aside` looks at besides; empty if all could.
    """

    name: str
    trouble: str

    def installed(self, names: Iterable[str]) -> Dict[str, Installed]:
        """The installed ones of these packages; shell patterns are names too, and 'src:NAME' is all that was built from a source.

        Packages of a foreign architecture are told only where they are named with it, as 'libcuda1:i386'.
        """

    def refresh(self, owner: Optional[str] = None) -> None:
        """Read the lists of the repository that we wrote for an owner, or of all repositories."""

    def agree(self) -> None:
        """See that a new repository is not in the way of those that the node has besides.

        Raises:
            PackageError: the package manager cannot use them together.
        """

    def offered(self, names: Iterable[str]) -> Offers:
        """Versions that repositories offer, by the lists that were read, newest first."""

    def prove(self, owner: str, asked: Mapping[str, str]) -> None:
        """Compare a small package with the key of an owner's repository, if nothing but packages is signed there.

        It is one of these, or another one of their versions. If all of them are large, or need more than that repository and the
        machine have, the key is left to the installation.

        Raises:
            PackageError: it is signed by nobody, or with another key.
        """

    def aside(
        self, repositories: Mapping[str, Repository], beside_node: bool = False
    ) -> ContextManager[Backend]:
        """A backend that sees other repositories, by owner, with lists that vanish afterwards; nothing on the node changes.

        Args:
            repositories: what to ask, signature included.
            beside_node: whether it sees the node's own repositories, pins and installed packages too, as a simulation needs: what an
                owner has there counts as taken away. Only the repositories that are given have to answer.
        """

    def repository_files(self, owner: str, repository: Optional[Repository]) -> List[File]:
        """Files that configure a repository, its key for it alone; none without a repository."""

    def pin_files(self, owner: str, pins: Mapping[str, Sequence[str]]) -> List[File]:
        """Files that allow packages, by name or pattern, only these full versions; none without pins."""

    def hold(self, versions: Mapping[str, str]) -> None:
        """Keep packages at the full versions that they have."""

    def release(self, names: Iterable[str]) -> None:
        """Let upgrades change packages again."""

    def simulate(
        self,
        versions: Mapping[str, str],
        pins: Mapping[str, Sequence[str]],
        released: Sequence[str] = (),
        displaced: Sequence[str] = (),
        reads: bool = False,
    ) -> Plan:
        """What an exact install would do, with pins as if they were there already, and holds as if they were let go.

        Args:
            versions: by name, as for `install`.
            pins: versions by name or pattern.
            released: names of packages whose holds will be let go.
            displaced: likewise.
            reads: whether lists that are missing, or too old for these packages, are read before, as `install` does it.
        """

    def simulate_from(
        self,
        folder: Path,
        pins: Mapping[str, Sequence[str]],
        released: Sequence[str] = (),
        displaced: Sequence[str] = (),
    ) -> Plan:
        """What `install_from` would do; see `simulate`."""

    def blocked(self) -> str:
        """Why an upgrade of all other packages fails because of what we hold, by the lists that were read; empty if it does not."""

    def install(
        self,
        versions: Mapping[str, str],
        displaced: Sequence[str] = (),
        erase: bool = True,
    ) -> None:
        """Install exactly these; an empty version takes the one that is offered.

        Args:
            versions: by name.
            displaced: installed packages that have files of these and are in no conflict with them: they go in the same step.
            erase: whether anything may go for them. Where a simulation said that nothing would, nothing does.
        """

    def fetch(self, versions: Mapping[str, str], folder: Path) -> List[Saved]:
        """Save exactly these packages in a folder, with a manifest; what they pull in is simulate's to tell.

        What no repository offers any more is taken from what the package manager itself has kept.
        """

    def install_from(self, folder: Path, displaced: Sequence[str] = (), erase: bool = True) -> None:
        """Install what fetch saved, after a look at its manifest; see `install`. Needs no repository."""

    def removal(self, names: Iterable[str], unused: bool = False) -> Dict[str, str]:
        """Versions by name of all that goes with a removal: these packages, and with `unused` what nothing needs any more after it.

        What nothing needed before it stays. Anything else that would go, come or change is an error that names it.
        """

    def remove(self, names: Iterable[str], unused: bool = False) -> Dict[str, str]:
        """Remove what `removal` tells, and tell it. Apt leaves configuration files; rpm leaves edited ones, as FILE.rpmsave."""

    def owner(self, path: str) -> Optional[str]:
        """The package that a file came with."""

    def repair(self) -> bool:
        """Finish what an interrupted run left half done, removing nothing; whether anything was done."""


# --- names ---------------------------------------------------------------------------------------------------------

SOURCE = "src:"


def alike(name: str, source: str, patterns: Iterable[str]) -> bool:
    """Whether a package is meant by one of these shell patterns of names, or of sources ('src:PATTERN')."""
    return any(
        fnmatch.fnmatchcase(source, pattern[len(SOURCE) :])
        if pattern.startswith(SOURCE)
        else fnmatch.fnmatchcase(name, pattern)
        for pattern in patterns
    )


def pins(exact: Mapping[str, str], patterns: Iterable[str]) -> Dict[str, List[str]]:
    """Versions by name and pattern that a set allows."""
    if not exact:
        return {}
    found = {pattern: sorted(set(exact.values())) for pattern in patterns}
    found.update({name: [version] for name, version in exact.items()})
    return found


def refuse_type(repository: Optional[Repository], owner: str, manager: str, kind: str) -> None:
    """A package manager reads repositories of its own type only."""
    if repository is not None and repository.type != kind:
        raise PackageError(
            f"The repository of '{owner}' is of type '{repository.type}', and {manager} reads repositories of type '{kind}'. "
            f"Name one of these for the machine, with 'type: {kind}'."
        )
