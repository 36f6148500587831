"""What dnf may not move: pins and holds, as lines of its plugin versionlock.

A pin and a hold are the same to dnf: a line by name and full version. So patterns are resolved to names, and what is asked for is run with
a list of locks of its own, in which it stands already.
"""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import re
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Dict, Iterable, Iterator, List, Mapping, Sequence

from ansible_collections.gpusmith.gpu.plugins.module_utils import files
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import base, dnf_output, rpm, versionlock
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.dnf_machine import (
    AS_READ,
    WITH_LOCKS,
    Machine,
)

# Where dnf's plugin versionlock is switched off.
SWITCHES = (("etc/dnf/dnf.conf", "plugins"), ("etc/dnf/plugins/versionlock.conf", "enabled"))


class Locks:
    """The locks of a machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def listed(self) -> versionlock.Listed:
        """What the list says."""
        return versionlock.read(self._machine.locks_text() or "")

    def _write(self, locks: versionlock.Listed) -> None:
        """Replace the list at once; without the file dnf's plugin breaks all that dnf does."""
        text, path = locks.render(), self._machine.locks
        if text == self._machine.locks_text():
            return
        files.put(path, text, 0o644)

    # --- pins ------------------------------------------------------------------------------------------------------

    def pin_files(self, owner: str, pins: Mapping[str, Sequence[str]]) -> List[base.File]:
        """See `base.Backend`."""
        text = self._machine.locks_text()
        locks = versionlock.read(text or "")
        if text is None and not pins:
            return []
        there = {row.name for row in self._machine.installed()}
        # What is held is there. Pins whose comments another program left out look like holds, too.
        held = {name: each for name, each in locks.ours.get(versionlock.HELD, {}).items() if name in there}
        locks = locks.with_block(versionlock.HELD, held)
        locks = locks.with_block(owner, self.resolved(pins, locks.ours.get(owner, {})))
        return [base.File(self._machine.locks, locks.render())]

    def resolved(self, pins: Mapping[str, Sequence[str]], before: versionlock.Locks) -> versionlock.Locks:
        """Pins by name: patterns stand for what is offered or installed of their versions, and what was found so before."""
        patterns = [name for name in pins if name.startswith(base.SOURCE) or re.search(r"[*?[]", name)]
        found: versionlock.Locks = {
            name: list(versions) for name, versions in pins.items() if name not in patterns
        }
        if not patterns:
            return found
        allowed = sorted({version for pattern in patterns for version in pins[pattern]})
        upstream = {rpm.split(version)[1] for version in allowed}
        known: Dict[str, List[str]] = {name: list(versions) for name, versions in before.items()}
        there = [row for row in self._machine.installed() if base.alike(row.name, row.source, patterns)]
        for row in [*self._machine.candidates(patterns), *there]:
            known.setdefault(row.name, []).append(row.version)
        for name, versions in known.items():
            # Parts of one set can have releases and epochs of their own.
            fitting = [each for each in versions if rpm.split(each)[1] in upstream]
            exact = [each for each in fitting if each in allowed]
            if fitting and name not in found:
                here = [row.version for row in there if row.name == name and row.version in fitting]
                found[name] = exact[:1] or here[:1] or rpm.newest_first(fitting)[:1]
        return found

    # --- what dnf sees ---------------------------------------------------------------------------------------------

    @contextmanager
    def seen_as(self, locks: versionlock.Listed, versions: Mapping[str, str]) -> Iterator[List[str]]:
        """Options with which dnf sees these locks, and allows these versions.

        Raises:
            PackageError: lines of others do not allow them.
        """
        exact = {name: version for name, version in versions.items() if version}
        self._refuse_hindered(locks, exact)
        locks = locks.without(exact, exact).with_block(
            "what is asked", {name: [each] for name, each in exact.items()}
        )
        with tempfile.TemporaryDirectory(prefix="gpusmith-locks-") as name:
            folder = Path(name)
            for path in self._machine.plugins.glob("*.conf"):
                shutil.copy2(path, folder)
            files.put(folder / "locks", locks.render())
            (folder / "versionlock.conf").write_text(
                f"[main]\nenabled=1\nlocklist={folder}/locks\n", encoding="utf-8"
            )
            yield [f"--setopt=pluginconfpath={folder}"]

    def _refuse_hindered(self, locks: versionlock.Listed, versions: Mapping[str, str]) -> None:
        """Lines of others count, and stay."""
        for name, version in versions.items():
            line = locks.hinders(name, version)
            if line is not None:
                raise base.PackageError(
                    f"'{line}' in '{self._machine.locks}', which is not ours, locks '{name}' at another version than '{version}'. "
                    f"Take it out ('dnf versionlock delete {name}') if it may go, or ask for the version that it has."
                )

    def blocked(self) -> str:
        """See `base.Backend`. With best=True dnf upgrades nothing if one package's best version cannot be had."""
        if not self._machine.has_repositories():
            return ""
        locks = self.listed()
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
        with self.seen_as(locks, {}) as options:
            try:
                self._machine.dnf(
                    [*options, *WITH_LOCKS, *AS_READ, "upgrade", "--assumeno"],
                    base.UPDATE_TIMEOUT_S,
                    unless=dnf_output.ABORTED,
                    yes=False,
                )
            except (base.BusyError, base.UnfinishedError):
                return ""
            except base.PackageError as error:
                return str(error)
        return ""

    # --- holds -----------------------------------------------------------------------------------------------------

    def hold(self, versions: Mapping[str, str]) -> None:
        """See `base.Backend`."""
        if not versions:
            return
        self._have_them_read()
        locks = self.listed()
        self._refuse_hindered(locks, versions)
        held = dict(locks.without(versions, {}).ours.get(versionlock.HELD, {}))
        held.update({name: [version] for name, version in versions.items()})
        self._write(locks.without(versions, versions).with_block(versionlock.HELD, held))

    def _have_them_read(self) -> None:
        """Nothing is held by lines that dnf does not read."""
        self._machine.need_locks()
        for path, option in SWITCHES:
            file = self._machine.root / path
            text = files.read(file) or ""
            if re.search(rf"(?mi)^\s*{option}\s*=\s*(?:0|no|false|off)\s*$", text):
                raise base.PackageError(
                    f"'/{path}' has '{option}' switched off, so dnf reads no locks, and would replace what has to stay. "
                    f"Set '{option}=1' there."
                )

    def release(self, names: Iterable[str]) -> None:
        """See `base.Backend`."""
        locks = self.listed()
        listed = set(names)
        held = {
            name: each for name, each in locks.ours.get(versionlock.HELD, {}).items() if name not in listed
        }
        if held != locks.ours.get(versionlock.HELD, {}):
            self._write(locks.with_block(versionlock.HELD, held))

    def follow(self, versions: Mapping[str, str]) -> None:
        """Holds of packages go with a change of theirs.

        Args:
            versions: that are installed now.
        """
        held = self.listed().ours.get(versionlock.HELD, {})
        moved = {
            name: version for name, version in versions.items() if name in held and held[name] != [version]
        }
        if moved:
            self.hold(moved)
