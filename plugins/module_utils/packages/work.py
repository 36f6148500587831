"""The work of one call of module packages: which steps, in which order, on whatever backend."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any, Callable, Iterable, Mapping

from ansible_collections.gpusmith.gpu.plugins.module_utils.files import put, read, shown
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import (
    base,
    matching,
    others,
    preview,
    removals,
)
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.repositories import repository_of


def is_on_disk(file: base.File) -> bool:
    """Whether a file of this machine is as it should be."""
    return bool(read(file.path) == file.text)


class Work:
    """The work of one call.

    Attributes:
        changed: whether anything was or would be changed.
        packages: by name, the version before and after.
        saved: by name, the version in the folder.
        plan: what would be done, in check mode.
        diff: of files.
        warnings: what could not be predicted, and what fails from now on.
    """

    def __init__(
        self,
        params: dict[str, Any],
        check: bool,
        backend: base.Backend,
        is_there: Callable[[base.File], bool] = is_on_disk,
        serves: bool = False,
    ) -> None:
        """Prepare the work.

        Args:
            params: of the module.
            check: whether nothing may be changed.
            backend: of the package manager.
            is_there: whether a file is as it should be; replaced by who knows the node from its record only.
            serves: whether the node has joined a cluster.
        """
        self._params = params
        self._name: str = params["name"]
        self._check = check
        self._backend = backend
        self._is_there = is_there
        self._serves = serves
        self._wanted = {name: str(version) for name, version in params["packages"].items()}
        self._before: list[base.File] = []
        self.changed = False
        self.packages: dict[str, dict[str, Any]] = {}
        self.saved: dict[str, str] = {}
        self.plan: dict[str, Any] | None = None
        self.diff: list[dict[str, str]] = []
        self.warnings: list[str] = []

    # --- files -----------------------------------------------------------------------------------------------------

    def _write(self, files: Iterable[base.File]) -> bool:
        different = [file for file in files if not self._is_there(file)]
        for file in different:
            header = str(file.path)
            self.diff.append(
                {
                    "before": shown(read(file.path) or ""),
                    "after": shown(file.text or ""),
                    "before_header": header,
                    "after_header": header,
                }
            )
            if self._check:
                continue
            self._before.append(base.File(file.path, read(file.path)))
            put(file.path, file.text, 0o644)
        self.changed |= bool(different)
        return bool(different)

    def _take_back(self) -> None:
        """Files are as they were."""
        before, self._before = self._before, []
        for file in reversed(before):
            put(file.path, file.text, 0o644)

    def _announce(self, files: Iterable[base.File]) -> None:
        """Name new files of which check mode cannot know the content."""
        for file in files:
            if file.text is not None and not file.path.exists():
                header, text = str(file.path), "# Only known once the repository was read.\n"
                self.diff.append(
                    {"before": "", "after": text, "before_header": header, "after_header": header}
                )

    # --- present ---------------------------------------------------------------------------------------------------

    def present(self) -> None:
        """Repository, pins, packages and holds as asked for."""
        given = self._repository()
        new_source = given is not None and self._configure(given)
        now = self._look()
        missing, loose = self._lacking(now)
        others = matching.to_come(self._params["counterparts"], now)
        optional = [name for name in self._params["optional"] if name not in now]
        released = self._params["release"]
        behind = [name for name in self._behind(now) if missing or base.alike(name, "", released)]
        exact = {name: now[name].version for name in self._wanted if name not in missing}
        coming: dict[str, str] = {}
        if missing or loose or optional or others or behind:
            if self._params["repository"] and not new_source and not self._check:
                self._backend.refresh(self._name)
            # In check mode the list may not be on the node yet; preflight asks the repository itself.
            offers = {} if new_source and self._check else self._backend.offered(missing)
            exact = self._resolve(exact, missing, offers)
            coming = self._parts(self._backend, behind, exact)
            coming.update({name: exact[name] for name in missing if name in exact})
            coming.update(self._choose(loose, optional))
            coming.update(self._counterparts(self._backend, others, exact))
            if loose and not self._check:
                pins = base.pins(exact, self._params["patterns"])
                coming = self._fitting(self._backend, coming, loose, pins)
        self._settle(now, exact, coming, due=bool(missing or coming or others))

    def _settle(
        self,
        now: dict[str, base.Installed],
        exact: dict[str, str],
        coming: dict[str, str],
        due: bool,
        folder: Path | None = None,
    ) -> None:
        """Pins, packages and holds, in that order: what comes along goes by the pins."""
        pins = base.pins(exact, self._params["patterns"])
        if len(exact) == len(self._wanted):
            self._write(self._backend.pin_files(self._name, pins))
        elif self._check:
            self._announce(self._backend.pin_files(self._name, base.pins(self._wanted, ())))
        erase = due and self._foresee(now, coming, pins, folder)
        held = self._to_release(now)
        self.changed |= bool(due or held)
        # Without their holds, a routine upgrade could change what an installation that fails leaves there.
        lets_go = (
            removals.released(self._backend, held) if held and not self._check else contextlib.nullcontext()
        )
        with lets_go:
            if due and not self._check:
                self._bring(now, coming, folder, erase)
        after = now if self._check or not coming else self._look()
        self._hold(after, exact)
        blocked = self._backend.blocked() if due and not self._check else ""
        if blocked:
            self.warnings.append(blocked)
        for name in [*self._wanted, *self._params["unversioned"], *self._params["optional"]]:
            expected = exact.get(name) or coming.get(name) or self._wanted.get(name)
            known = self._version(after, name) if not self._check or name not in coming else None
            self.packages[name] = {"before": self._version(now, name), "after": known or expected}

    def _bring(
        self, now: Mapping[str, base.Installed], coming: dict[str, str], folder: Path | None, erase: bool
    ) -> None:
        if folder is None:
            self._backend.install(coming, self._displaced(now), erase)
        else:
            self._backend.install_from(folder, self._displaced(now), erase)

    def _displaced(self, now: Mapping[str, base.Installed]) -> list[str]:
        return [name for name in self._params["displaced"] if name in now]

    def _repository(self) -> base.Repository | None:
        given = self._params["repository"]
        return None if given is None else repository_of(given, self._name)

    def _configure(self, repository: base.Repository) -> bool:
        """Write the repository, and read it: one that does not answer, or is signed with another key, does not stay."""
        if not self._write(self._backend.repository_files(self._name, repository)):
            return False
        if not self._check:
            try:
                self._backend.refresh(self._name)
                self._backend.agree()
            except base.PackageError:
                self._take_back()
                raise
        return True

    def _look(self) -> dict[str, base.Installed]:
        named = [
            *self._wanted,
            *self._params["unversioned"],
            *self._params["optional"],
            *self._params["companions"],
            *self._params["release"],
            *self._params["displaced"],
            *(name for each in self._params["counterparts"] for name in (each["of"], *each["names"])),
        ]
        found: dict[str, base.Installed] = self._backend.installed([*named, *self._params["patterns"]])
        return found

    def _lacking(self, now: dict[str, base.Installed]) -> tuple[list[str], list[str]]:
        """Packages that are not there in their version, and those that any version of will do."""
        missing = [
            name
            for name, want in self._wanted.items()
            if not matching.satisfies(self._version(now, name), want)
        ]
        # What is let go of changes with the set, as a module that comes built for a kernel, and needs its own driver.
        changing = self._params["release"]
        return missing, [name for name in self._params["unversioned"] if name not in now or name in changing]

    @staticmethod
    def _version(packages: dict[str, base.Installed], name: str) -> str | None:
        return packages[name].version if name in packages else None

    def _resolve(self, there: dict[str, str], missing: list[str], offers: base.Offers) -> dict[str, str]:
        exact: dict[str, str] = matching.exact(
            {**offers, **{name: [version] for name, version in there.items()}}, self._wanted
        )
        for name in missing:
            if name not in exact and not self._check:
                raise matching.missing_version(name, self._wanted[name], offers)
        return exact

    def _is_of_set(self, version: str) -> bool:
        """Whether a version is one of the set's: parts can have epochs and revisions of their own."""
        return any(matching.satisfies(version, want) for want in self._wanted.values())

    def _behind(self, now: Mapping[str, base.Installed]) -> list[str]:
        """What is meant by the patterns and has another version. What nothing named needs in its version would stay so."""
        return [
            name
            for name, package in now.items()
            if base.alike(name, package.source, self._params["patterns"])
            and name not in self._wanted
            and name not in self._params["unversioned"]
            and name not in self._params["replaced"]
            and not self._is_of_set(package.version)
        ]

    def _parts(self, backend: base.Backend, behind: list[str], exact: Mapping[str, str]) -> dict[str, str]:
        """Full versions of parts, as far as they are offered in one of the set's."""
        found = {}
        for name, versions in backend.offered(behind).items():
            fitting = [version for version in versions if self._is_of_set(version)]
            if fitting:
                found[name] = next((version for version in fitting if version in exact.values()), fitting[0])
        return found

    def _counterparts(
        self, backend: base.Backend, others: list[Any], exact: Mapping[str, str]
    ) -> dict[str, str]:
        """Full versions of what comes for packages of another branch."""
        offers = backend.offered([name for each in others for name in each["names"]])
        found: dict[str, str] = {}
        for each in others:
            one = matching.counterpart(each, offers, exact.values())
            if not one and not self._check:
                raise base.PackageError(
                    f"{matching.no_counterpart(each)}. Find out who needs it on the node, or stay with the branch that has it."
                )
            found.update(one)
        return found

    def _choose(self, loose: list[str], optional: list[str]) -> dict[str, str]:
        """Packages without a wanted version, as far as they are offered."""
        offers, trouble = self._backend.offered([*loose, *optional]), ""
        if any(not offers.get(name) for name in [*loose, *optional]) and not self._check:
            # A fresh image has no lists. Whether they can be read is not decided here: the package is there afterwards, or not.
            try:
                self._backend.refresh()
            except base.PackageError as error:
                trouble = f" {error}"
            offers = self._backend.offered([*loose, *optional])
        lacking = [name for name in loose if not offers.get(name)]
        if lacking and not self._check:
            raise base.PackageError(
                f"No repository offers '{lacking[0]}'. Correct the repository of '{self._name}' or the inventory.{trouble}"
            )
        return dict.fromkeys([*loose, *(each for each in optional if offers.get(each))], "")

    def _fitting(
        self, backend: base.Backend, coming: dict[str, str], loose: list[str], pins: dict[str, list[str]]
    ) -> dict[str, str]:
        """What is to come, with versions of the loose ones that go together with the rest."""
        released, companions = self._params["release"], self._params["companions"]
        found: dict[str, str] = preview.fitting(backend, coming, loose, pins, released, companions)
        return found

    # --- what would come of it -------------------------------------------------------------------------------------

    def _foresee(
        self,
        now: Mapping[str, base.Installed],
        coming: dict[str, str],
        pins: dict[str, list[str]],
        folder: Path | None,
    ) -> bool:
        """Whether anything goes for what comes, before anything is changed: packages of others are refused, and files are as they were."""
        try:
            if not self._check:
                self._backend.repair()
            plan = self._simulated(now, coming, pins, folder)
            if plan is None:
                return True
            self._refuse_others(self._backend, {**coming, **self.saved}, plan)
        except (base.PackageError, OSError):
            self._take_back()
            raise
        if self._check:
            self.plan = plan._asdict()
        return bool(plan.removed)

    def _simulated(
        self,
        now: Mapping[str, base.Installed],
        coming: dict[str, str],
        pins: dict[str, list[str]],
        folder: Path | None,
    ) -> base.Plan | None:
        """What would be done; None where nobody can tell, in check mode."""
        released, displaced = [*self._params["release"], *self._to_release(now)], self._displaced(now)
        found: base.Plan | None = None
        try:
            if folder is not None:
                found = self._backend.simulate_from(folder, pins, released, displaced)
            elif coming:
                found = self._backend.simulate(coming, pins, released, displaced, reads=not self._check)
        except base.PackageError as error:
            if not self._check:
                raise self._untold(error) from error
            self.warnings.append(f"What would come along cannot be predicted: {error}")
        return found

    def _untold(self, error: base.PackageError) -> base.PackageError:
        if isinstance(error, base.BusyError):
            return error
        return base.PackageError(
            f"{error} What installing '{self._name}' would remove or change could not be simulated, so nothing was changed. Correct the cause,"
            " then run again."
        )

    def _refuse_others(self, backend: base.Backend, coming: Mapping[str, str], plan: base.Plan) -> None:
        """What is not of the set, or of what comes with it, stays, unless it is permitted to go."""
        if not plan.changed and not plan.removed:
            return
        there = backend.installed([*plan.changed, *plan.removed])
        found = others.of_plan(
            plan,
            [{**self._params, "packages": {**coming, **self._wanted}}],
            {name: package.source for name, package in there.items()},
            others.held(plan, there),
            self._params["removable"],
            self._serves,
        )
        others.refuse(found, self._name, os.uname().release)

    # --- holds -----------------------------------------------------------------------------------------------------

    def _belonging(self, there: dict[str, base.Installed], versions: Iterable[str]) -> list[str]:
        """Installed packages of the set: those that are named, and those by pattern in one of its versions."""
        allowed = set(versions)
        return [
            name
            for name, package in there.items()
            if name in self._wanted
            or (
                base.alike(name, package.source, self._params["patterns"])
                and name not in self._params["unversioned"]
                and (package.version in allowed or self._is_of_set(package.version))
            )
        ]

    def _to_release(self, now: Mapping[str, base.Installed]) -> list[str]:
        patterns = self._params["release"]
        return [
            name
            for name, package in now.items()
            if package.held and base.alike(name, package.source, patterns)
        ]

    def _hold(self, there: dict[str, base.Installed], exact: dict[str, str]) -> None:
        patterns = self._params["companions"]
        own = self._belonging(there, exact.values())
        own += [name for name, package in there.items() if base.alike(name, package.source, patterns)]
        if self._params["hold_unversioned"]:
            own += self._params["unversioned"]
        loose = {name: there[name].version for name in own if name in there and not there[name].held}
        self.changed |= bool(loose)
        if loose and not self._check:
            self._backend.hold(loose)

    # --- absent ----------------------------------------------------------------------------------------------------

    def absent(self) -> None:
        """No packages, pins and repository of ours."""
        now = self._look()
        versions = [now[name].version for name in self._wanted if name in now]
        names = self._belonging(now, versions) + [name for name in self._params["unversioned"] if name in now]
        if names:
            take = self._backend.removal if self._check else self._backend.remove
            gone = take(names, self._params["autoremove"])
            self.packages.update((name, {"before": version, "after": None}) for name, version in gone.items())
            self.changed = True
        self._write(self._backend.pin_files(self._name, {}))
        self._write(self._backend.repository_files(self._name, None))
