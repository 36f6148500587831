"""Package repositories for machines with other operating systems than the lab's usual one, one folder for each system."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gpulab.artifacts import repos, rpm_repos, rpms
from gpulab.artifacts.repos import SigningKey
from gpulab.artifacts.store import Inputs, Store, digest_file, key_of
from gpulab.systems import SIGNED, System

RECIPE = 4  # raise when this file changes what comes out

UBUNTU = {"Origin": "Ubuntu", "Label": "Ubuntu", "Codename": "noble"}
ARCHIVES = {"ubuntu": {**UBUNTU, "Suite": "noble"}, "ubuntu-security": {**UBUNTU, "Suite": "noble-security"}}
"""What a distribution's own archive calls itself; unattended-upgrades takes packages from it alone, unless a site adds others."""


class Families:
    """The repositories of every system that has some of its own.

    Args:
        store: where they are kept.
        simulation: what decides the simulated driver's packages.
        key: signs everything.
        component_key: the key of a compiled component.
        component_folder: where its programs are.
    """

    def __init__(
        self,
        store: Store,
        simulation: Inputs,
        key: SigningKey,
        component_key: Callable[[str], str],
        component_folder: Callable[[str], Path],
    ) -> None:
        self._store = store
        self._simulation = simulation
        self._key = key
        self._component_key = component_key
        self._component_folder = component_folder

    def path(self, system: System) -> Path:
        """Where a system's repositories are, built or not."""
        return self._store.path(self._name(system), key_of(self._inputs(system)))

    def ensure(self, system: System) -> Path:
        """A folder with one signed repository in each of its folders, built now if it is not there."""

        def build(folder: Path) -> None:
            make = self._debs if system.manager == "apt" else self._rpms
            make(system, folder)

        label = f"signed package repositories for '{system.name}'"
        return self._store.get(self._name(system), self._inputs(system), build, label)

    @staticmethod
    def _name(system: System) -> str:
        return f"packages-{system.name}"

    def _inputs(self, system: System) -> Inputs:
        described = rpms.load(system.tag) if system.manager == "dnf" else []
        return {
            "recipe": RECIPE,
            "system": system.name,
            "simulation": self._simulation,
            "key": digest_file(self._key.public),
            "packages": [rpms.inputs(each, self._component_key) for each in described],
            "signed": dict(SIGNED),
        }

    def _debs(self, system: System, folder: Path) -> None:
        _simulated("ubuntu").build(folder)
        for repository in _folders(folder):
            called = ARCHIVES.get(repository.name)
            repos.index(repository, f"{system.name}-{repository.name}", self._key, called)

    def _rpms(self, system: System, folder: Path) -> None:
        el = _simulated("el")
        el.build(folder, system.tag)
        for name, described in self._by_repository(system):
            rpms.write([rpms.resolved(each, self._component_folder) for each in described], folder / name)
        for repository in _folders(folder):
            streams = el.modules(system.tag) if repository.name == "cuda" else ""
            rpm_repos.index(repository, SIGNED[repository.name], self._key, streams)

    @staticmethod
    def _by_repository(system: System) -> Iterator[tuple[str, list[rpms.Described]]]:
        described = rpms.load(system.tag)
        for name in sorted({each.repository for each in described}):
            yield name, [each for each in described if each.repository == name]


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir())


def _simulated(name: str) -> Any:
    # Imported here: it compiles C when asked, and nothing else of this package needs it.
    return importlib.import_module(f"gpulab.simgpu.{name}")
