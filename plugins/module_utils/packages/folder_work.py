"""The work of module packages on a folder: a set is saved there, and installed from it."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Iterable

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import base, manifests, matching
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.work import Work


def _by_name(saved: Iterable[base.Saved]) -> dict[str, str]:
    return {each.name: each.version for each in saved}


class FolderWork(Work):
    """The work of one call with a folder."""

    _wanted: dict[str, str]

    def fetched(self, folder: Path) -> None:
        """The set in a folder, with what its installation pulls in or changes on this node; a set that is there, as it is there."""
        try:
            self.saved = _by_name(manifests.read(folder, self._backend.name))
        except base.PackageError:
            self.saved = {}
        now = self._look() if self._wanted or self._params["counterparts"] else {}
        others = matching.to_come(self._params["counterparts"], now)
        missing, loose = self._lacking(now)
        is_saved = self._has_saved(others)
        as_it_is = {} if missing or others else self._as_it_is(now)
        if is_saved and as_it_is.items() <= self.saved.items():
            return
        self.changed = True
        if self._check:
            return
        if is_saved:
            # What came to the installed set since; no repository may have the rest any more.
            saved = self._fetch_there({**self.saved, **as_it_is}, folder)
        elif missing or loose or others:
            saved = self._fetch_beside(lambda beside: self._to_come(beside, now, missing, loose), folder)
        else:
            saved = self._fetch_there(as_it_is, folder)
        self.saved = _by_name(saved)

    def _fetch_there(self, versions: dict[str, str], folder: Path) -> list[base.Saved]:
        """Packages that are installed, from wherever they can be had."""
        try:
            found: list[base.Saved] = self._backend.fetch(versions, folder)
            return found
        except base.PackageError as error:
            # Its lists may be old, or the inventory's repository may have it.
            return self._fetch_beside(lambda _beside: versions, folder, f"{error} ")

    def _fetch_beside(
        self, choose: Callable[[base.Backend], dict[str, str]], folder: Path, trouble: str = ""
    ) -> list[base.Saved]:
        """With the inventory's repository. Lists, pins and repositories of the node stay what they are."""
        given = self._repository() if self._params["repository"] else None
        repositories = {self._name: given} if given else {}
        try:
            with self._backend.aside(repositories, beside_node=True) as beside:
                found: list[base.Saved] = beside.fetch(choose(beside), folder)
                return found
        except base.PackageError as error:
            raise base.PackageError(trouble.replace(f"{error} ", "") + str(error)) from error

    def _has_saved(self, others: list[Any]) -> bool:
        """Whether the folder has what is asked for, and what comes for packages of another branch."""
        saved = {name: base.Installed(version, False) for name, version in self.saved.items()}
        return all(
            matching.satisfies(self.saved.get(name), want) for name, want in self._wanted.items()
        ) and all(
            not matching.to_come([each], {**saved, each["of"]: base.Installed("", False)}) for each in others
        )

    def _as_it_is(self, now: dict[str, base.Installed]) -> dict[str, str]:
        exact = {name: now[name].version for name in self._wanted}
        own = [name for name in [*self._params["unversioned"], *self._params["companions"]] if name in now]
        names = [*self._belonging(now, exact.values()), *own]
        return {**exact, **{name: now[name].version for name in names}}

    def _to_come(
        self, beside: base.Backend, now: dict[str, base.Installed], missing: list[str], loose: list[str]
    ) -> dict[str, str]:
        there = {name: now[name].version for name in self._wanted if name not in missing}
        exact = self._resolve(there, missing, beside.offered(missing))
        coming = self._parts(beside, self._behind(now), exact)
        coming.update({name: exact[name] for name in missing})
        coming.update(dict.fromkeys(loose, ""))
        coming.update(self._counterparts(beside, matching.to_come(self._params["counterparts"], now), exact))
        pins = base.pins(exact, self._params["patterns"])
        coming = self._fitting(beside, coming, loose, pins)
        plan = beside.simulate(coming, pins, self._params["release"])
        self._refuse_others(beside, coming, plan)
        return {**exact, **plan.installed, **{name: after for name, (_, after) in plan.changed.items()}}

    def from_folder(self, folder: Path) -> None:
        """Exactly what a folder has, pinned and held. No repository is asked, or written."""
        self.saved = _by_name(manifests.read(folder, self._backend.name))
        self._wanted = self._wanted or dict(self.saved)
        for name, want in self._wanted.items():
            if not matching.satisfies(self.saved.get(name), want):
                raise base.PackageError(
                    f"'{folder}' has '{name}' in version '{self.saved.get(name, 'none')}', not '{want}'. Fetch that version."
                )
        now = self._look()
        there = {**self._backend.installed(self.saved), **now}
        coming = {
            name: version for name, version in self.saved.items() if self._version(there, name) != version
        }
        self._settle(now, {name: self.saved[name] for name in self._wanted}, coming, bool(coming), folder)
