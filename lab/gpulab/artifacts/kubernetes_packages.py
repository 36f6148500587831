"""The repositories of one minor release of Kubernetes, as pkgs.k8s.io has them: 'deb' and 'rpm' side by side."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gpulab.artifacts import debs, repos, rpm_repos, rpms
from gpulab.artifacts.repos import SigningKey
from gpulab.artifacts.store import Inputs, Store, digest_file, key_of
from gpulab.kubernetes import REPOSITORY, Minor
from gpulab.systems import SIGNED

RECIPE = 1  # raise when this file changes what comes out


class KubernetesPackages:
    """Packages of a release that the lab's usual repositories do not have.

    Args:
        store: where they are kept.
        minor: the release.
        key: signs everything.
        component_key: the key of a compiled component, by the name that tables have for it.
        component_folder: where its programs are, likewise.
    """

    def __init__(
        self,
        store: Store,
        minor: Minor,
        key: SigningKey,
        component_key: Callable[[str], str],
        component_folder: Callable[[str], Path],
    ) -> None:
        self._store = store
        self._minor = minor
        self._key = key
        self._component_key = component_key
        self._component_folder = component_folder
        self._debs = [each for each in debs.load(minor=minor.name) if each.repository == REPOSITORY]
        # These are the same for all distributions, so none's tag is in their releases.
        self._rpms = [each for each in rpms.load("", minor=minor.name) if each.repository == REPOSITORY]

    def path(self, rpm: bool) -> Path:
        """Where they are, built or not."""
        return self._store.path(self._minor.root, key_of(self._inputs(rpm)))

    def ensure(self, rpm: bool) -> Path:
        """A folder with the repositories, built now if it is not there.

        Args:
            rpm: whether machines that rpm manages need some as well; rpmbuild may be missing where there are none.
        """

        def build(folder: Path) -> None:
            self._build_debs(folder / "deb")
            if rpm:
                self._build_rpms(folder / "rpm")

        label = f"signed package repositories of Kubernetes {self._minor.name}"
        return self._store.get(self._minor.root, self._inputs(rpm), build, label)

    def _inputs(self, rpm: bool) -> Inputs:
        return {
            "recipe": RECIPE,
            "key": digest_file(self._key.public),
            "debs": [debs.inputs(each, self._component_key) for each in self._debs],
            "rpms": [rpms.inputs(each, self._component_key) for each in self._rpms] if rpm else [],
            "signed": SIGNED[REPOSITORY],
        }

    def _build_debs(self, folder: Path) -> None:
        folder.mkdir()
        for package in self._debs:
            debs.build(package, folder, self._component_folder)
        repos.index(folder, self._minor.root, self._key)

    def _build_rpms(self, folder: Path) -> None:
        rpms.write([rpms.resolved(each, self._component_folder) for each in self._rpms], folder)
        rpm_repos.index(folder, SIGNED[REPOSITORY], self._key)
