"""Repositories of a release that is not the lab's usual one: for apt, and for each distribution's rpm packages, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from gpulab.artifacts import debs, repos, rpm_repos, rpms
from gpulab.artifacts.repos import SigningKey
from gpulab.artifacts.store import Inputs, Store, digest_file, key_of
from gpulab.releases import Release, Releases
from gpulab.systems import SIGNED, System

RECIPE = 2  # raise when this file changes what comes out


class OtherRelease:
    """Packages of a release that the lab's usual repositories do not have.

    Args:
        store: where they are kept.
        release: of which component, and which.
        chosen: all releases of the lab.
        key: signs everything.
        component_key: the key of a compiled component, by the name that tables have for it.
        component_folder: where its programs are, likewise.
    """

    def __init__(
        self,
        store: Store,
        release: Release,
        chosen: Releases,
        key: SigningKey,
        component_key: Callable[[str], str],
        component_folder: Callable[[str], Path],
    ) -> None:
        self._store = store
        self._release = release
        self._chosen = chosen
        self._key = key
        self._component_key = component_key
        self._component_folder = component_folder
        self._debs = [each for each in debs.load(chosen=chosen) if each.repository == release.of]

    def path(self, systems: Iterable[System]) -> Path:
        """Where they are, built or not."""
        return self._store.path(self._release.component, key_of(self._inputs(_tags(systems))))

    def ensure(self, systems: Iterable[System]) -> Path:
        """A folder with the repositories, built now if it is not there.

        Args:
            systems: operating systems of the lab's machines; rpmbuild may be missing where rpm manages none of them.
        """
        tags = _tags(systems)

        def build(folder: Path) -> None:
            self._build_debs(folder / "deb")
            for tag in tags:
                self._build_rpms(tag, folder / tag)

        label = f"signed package repositories of {self._release}"
        return self._store.get(self._release.component, self._inputs(tags), build, label)

    def _rpms(self, tag: str) -> list[rpms.Described]:
        return [each for each in rpms.load(tag, chosen=self._chosen) if each.repository == self._release.of]

    def _inputs(self, tags: list[str]) -> Inputs:
        return {
            "recipe": RECIPE,
            "key": digest_file(self._key.public),
            "debs": [debs.inputs(each, self._component_key) for each in self._debs],
            "rpms": {
                tag: [rpms.inputs(each, self._component_key) for each in self._rpms(tag)] for tag in tags
            },
            "signed": SIGNED[self._release.of],
        }

    def _build_debs(self, folder: Path) -> None:
        folder.mkdir()
        for package in self._debs:
            debs.build(package, folder, self._component_folder)
        repos.index(folder, self._release.component, self._key)

    def _build_rpms(self, tag: str, folder: Path) -> None:
        rpms.write([rpms.resolved(each, self._component_folder) for each in self._rpms(tag)], folder)
        rpm_repos.index(folder, SIGNED[self._release.of], self._key)


def _tags(systems: Iterable[System]) -> list[str]:
    return sorted({each.tag for each in systems if each.manager == "dnf"})
