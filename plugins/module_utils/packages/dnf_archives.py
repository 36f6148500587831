"""Package files of dnf: saved in a folder with what proves them, and a sample of a repository, whose signature is looked at."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import glob
import re
import shutil
import tempfile
from pathlib import Path
from typing import Dict, Iterable, Iterator, List, Mapping, Sequence, Set, Tuple

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import (
    base,
    dnf_output,
    manifests,
    matching,
    rpm,
    signatures,
)
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.dnf_machine import (
    ALONE,
    AS_READ,
    CACHE,
    Machine,
    arches,
    as_asked,
    nevra,
)

# Of what is offered: size, architecture, and what dnf takes for exactly that.
SIZES = "%{downloadsize} %{arch} %{name} %{evr}"
SAMPLE_BYTES = 4 << 20
# So many builds are tried: some need what only another repository has.
SAMPLES = 6
ON = ("1", "true", "yes", "on")
KEY_FILE = "file://"
VARIABLE = re.compile(r"\$(?:\w+|\{\w+\})")
# A key of rpm's database, as it is listed.
KNOWN_KEY = re.compile(r"^(gpg-pubkey-\S+)\n(-----BEGIN PGP.*?-----END PGP [^\n]*)", re.MULTILINE | re.DOTALL)


class Archives:
    """Package files of a machine with dnf."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    # --- saved in a folder -----------------------------------------------------------------------------------------

    def save(self, versions: Mapping[str, str], folder: Path) -> List[base.Saved]:
        """Save packages in an empty folder; those that were saved."""
        rows = [row for row in self._machine.offered(sorted(versions)) if row.name in versions]
        offered = {(row.name, row.version): row for row in rows}
        # Several repositories may have the same.
        places = {wanted: {row.place for row in rows if row[:2] == wanted} for wanted in offered}
        for name, version in sorted(versions.items()):
            if (name, version) not in offered:
                path, place = self.cached(name, version)
                places[name, version] = {place}
                shutil.copy2(path, folder)
        self._download([row for wanted, row in offered.items() if wanted in versions.items()], folder)
        ours = [path for arch in arches() for path in sorted(folder.glob(f"*.{arch}.rpm"))]
        saved = [each for each in map(self._saved, ours) if each[:2] in versions.items()]
        self._check_signatures({folder / each.file: places[each.name, each.version] for each in saved})
        return saved

    def _download(self, rows: Sequence[rpm.Row], folder: Path) -> None:
        """Save packages as if to install them, or to install them anew: dnf's own command for it comes with a package that may not be there.

        What they need comes along. Locks are not read: these are full versions, and nothing is installed.
        """
        there = {nevra(row) for row in self._machine.installed()}
        here = [nevra(row) for row in rows if nevra(row) in there]
        coming = [nevra(row) for row in rows if nevra(row) not in there]
        # Signatures are looked at afterwards, by the repository's rule, so that dnf takes no key for it.
        words = [*ALONE, "--downloadonly", f"--destdir={folder}", "--setopt=*.metadata_expire=never"]
        words += ["--setopt=*.skip_if_unavailable=1", "--setopt=*.gpgcheck=0"]
        if here:
            self._machine.dnf([*words, "reinstall", *here], base.INSTALL_TIMEOUT_S)
        if coming:
            self._machine.dnf([*words, "install", *as_asked(), *coming], base.INSTALL_TIMEOUT_S)

    def _saved(self, path: Path) -> base.Saved:
        words = ["rpm", "-qp", "--nosignature", "--qf", rpm.INSTALLED, str(path)]
        row = rpm.parse_rows(self._machine.execute(words, 60))[0]
        return base.Saved(row.name, row.version, path.name, manifests.digest(path))

    def cached(self, name: str, version: str) -> Tuple[Path, str]:
        """The archive that an earlier installation left in dnf's cache, and its repository.

        Raises:
            PackageError: there is none.
        """
        _, plain, release = rpm.split(version)
        places = [self._machine.cache, self._machine.root / CACHE]
        found = [
            path
            for place in places
            for arch in arches()
            for path in place.glob(f"*/packages/{name}-{plain}-{release}.{arch}.rpm")
        ]
        if found:
            return found[0], found[0].parent.parent.name.rpartition("-")[0]
        raise base.PackageError(
            f"Neither a repository nor '{places[-1]}' has '{name}' in version '{version}'."
        )

    # --- signatures ------------------------------------------------------------------------------------------------

    def _are_signed(self, repository: str) -> bool:
        """Whether packages of a repository have to be signed."""
        settings = self._machine.settings()
        section = repository if settings.has_section(repository) else "main"
        return settings.get(section, "gpgcheck", fallback="0").strip().lower() in ON

    def _check_signatures(self, files: Mapping[Path, Set[str]]) -> None:
        """Compare files with the keys of the repositories that they can be from, if packages of one have to be signed."""
        for places in sorted({frozenset(each) for each in files.values()}, key=sorted):
            if any(map(self._are_signed, places)):
                listed = [path for path, each in sorted(files.items()) if each == places]
                signatures.check(listed, self._keys(places), self._machine.execute)

    def _keys(self, repositories: Iterable[str]) -> Dict[str, str]:
        """Armored keys of repositories, by what they are called; as for dnf, those that rpm knows as well.

        Where none of the repositories is there any more, those of all that are on.
        """
        settings = self._machine.settings()
        sections = [each for each in sorted(repositories) if settings.has_section(each)] or [
            each
            for each in settings.sections()
            if settings.get(each, "enabled", fallback="1").strip().lower() in ON
        ]
        paths = (
            path for section in sections for path in _key_files(settings.get(section, "gpgkey", fallback=""))
        )
        found = {str(path): path.read_text(encoding="utf-8", errors="replace") for path in paths}
        words = ["rpm", "-q", rpm.KEYS, "--qf", "%{NAME}-%{VERSION}-%{RELEASE}\\n%{DESCRIPTION}\\n"]
        found.update(KNOWN_KEY.findall(self._machine.execute(words, 60, accept=(0, 1))))
        return found

    def prove(self, owner: str, asked: Mapping[str, str]) -> None:
        """See `base.Backend`."""
        key = self._machine.key(owner)
        ours = [each for each in self._machine.ids(owner) if self._are_signed(each)]
        if not ours or not asked or not key.is_file():
            return
        words = ["-q", *ALONE, *AS_READ, *(f"--repo={each}" for each in ours), "repoquery", "--qf", SIZES]
        sample = self._sample(asked, [line.split() for line in self._machine.dnf(words, 60).splitlines()])
        if not sample:
            return
        with tempfile.TemporaryDirectory(prefix=manifests.DOWNLOADS) as name:
            words = [*ALONE, "--downloadonly", f"--destdir={name}", "--setopt=*.gpgcheck=0"]
            try:
                self._machine.dnf([*words, "install", *as_asked(), sample], base.UPDATE_TIMEOUT_S)
            except base.PackageError:
                return
            # What it needs comes along, from the same repository.
            keys = {str(key): key.read_text(encoding="utf-8")}
            signatures.check(sorted(Path(name).glob("*.rpm")), keys, self._machine.execute)

    def _sample(self, asked: Mapping[str, str], rows: Sequence[Sequence[str]]) -> str:
        """The smallest build that can be had with little else, of what is asked for or in a version of it; empty if there is none."""
        sizes = sorted(
            (int(size), f"{name}-{evr}.{arch}")
            for size, arch, name, evr in (row for row in rows if len(row) == 4)
            if size.isdigit() and arch in arches() and _is_alike(name, evr, asked)
        )
        for size, build in sizes[:SAMPLES]:
            if size <= SAMPLE_BYTES and self._total([*as_asked(), build]) <= SAMPLE_BYTES:
                return build
        return ""

    def _total(self, builds: Sequence[str]) -> float:
        """Bytes that an installation would bring; infinite where nobody can tell."""
        said = self._machine.dnf(
            [*ALONE, "--assumeno", "install", *builds], base.UPDATE_TIMEOUT_S, accept=(0, 1), yes=False
        )
        total: float = dnf_output.total_bytes(said)
        return total


def _key_files(addresses: str) -> Iterator[Path]:
    """Files of the keys that option 'gpgkey' names; what stands for a variable of dnf's may be anything."""
    for address in re.split(r"[\s,]+", addresses):
        if address.startswith(KEY_FILE):
            parts = map(glob.escape, VARIABLE.split(address[len(KEY_FILE) :]))
            yield from (Path(path) for path in sorted(glob.glob("*".join(parts))) if Path(path).is_file())


def _is_alike(name: str, version: str, asked: Mapping[str, str]) -> bool:
    """Whether a package is asked for, or was made with what is: it has the version of that."""
    if name in asked:
        return not asked[name] or matching.satisfies(version, asked[name])
    return any(matching.satisfies(version, want) for want in asked.values() if want)
