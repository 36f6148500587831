"""Put the parts together: which artifact needs which, and what `ensure` returns."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from gpulab import systems
from gpulab.artifacts import debian, debs, golang, images, machine_images, repos
from gpulab.artifacts.components import COMPONENTS, component, numbers
from gpulab.artifacts.families import Families
from gpulab.artifacts.other_releases import OtherRelease
from gpulab.artifacts.sources import IMAGES, LAB
from gpulab.artifacts.store import Inputs, Store, digest_file, digest_tree, key_of, need_programs
from gpulab.progress import say
from gpulab.releases import KUBERNETES, USUAL, Releases
from gpulab.systems import System
from gpusmith.errors import ToolError
from gpusmith.paths import cache_dir, state_dir

PROGRAMS = {
    "apt-ftparchive": "apt-utils",
    "dpkg-deb": "dpkg",
    "gcc": "gcc",
    "gpg": "gnupg",
    "mmdebstrap": "mmdebstrap",
    "pkg-config": "pkg-config",
    "podman": "podman",
    "zstd": "zstd",
}
RPM_PROGRAMS = {"createrepo_c": "createrepo-c", "rpmbuild": "rpm", "rpmsign": "rpm"}
"""Needed for machines that rpm manages."""
REPOSITORIES = ("kubernetes", "containerd", "nvidia-container-toolkit", "cuda", "cuda-broken", "debian")
SIMULATED = ("cuda", "cuda-broken", "debian")  # filled with the simulated driver's packages
DATA_OF_SIMULATION = ("data/gpus.yml",)


@dataclass(frozen=True)
class Artifacts:
    """What a lab is started from.

    Attributes:
        apt_root: one signed repository per folder.
        apt_key: armored public key of all of them.
        registry_root: storage folder of a distribution registry.
        node_image: podman's name of the bare machine.
        depot_image: podman's name of the machine that serves the two folders.
        versions: version by component; 'workload' and 'pod-network' are image tags, as are 'pause', 'etcd' and 'coredns'.
        images: podman's name of the bare machine, by operating system; of those that were asked for.
        package_roots: folder with the repositories of one operating system alone, or of one release, by its name.
    """

    apt_root: Path
    apt_key: Path
    registry_root: Path
    node_image: str
    depot_image: str
    versions: Mapping[str, str]
    images: Mapping[str, str] = field(default_factory=dict)
    package_roots: Mapping[str, Path] = field(default_factory=dict)

    def repositories(self) -> list[str]:
        """What must be served of each repository, as paths on the depot."""
        return sorted(
            f"{served}/{path.parent.relative_to(root)}/{path.name}"
            for served, root in (("apt", self.apt_root), *self.package_roots.items())
            for listed in ("InRelease", "repodata/repomd.xml")
            for path in root.glob(f"*/{listed}")
        )


class Builder:
    """All artifacts of this machine, each with its inputs and how it is made.

    Args:
        store: where they are kept.
        chosen: the lab's releases. Others than the usual ones have images and packages beside those of all labs, so that no
            lab's artifacts depend on what another lab asked for.
    """

    def __init__(self, store: Store, chosen: Releases = USUAL) -> None:
        self.store = store
        self.chosen = chosen
        self.components = (*COMPONENTS, *(component(each.component) for each in chosen.others))
        self._folders: dict[str, Path] = {}
        self._images = images.load(chosen)
        self._packages = debs.load()
        self.parts = images.Parts(self.chosen_key, self.chosen_folder, self.rootfs, self.sysroot)

    def sysroot(self) -> Path:
        """C library and headers of the nodes' distribution, for a compiler's --sysroot."""
        return debian.build(self.store, debian.load("sysroot"))

    @cached_property
    def sysroot_key(self) -> str:
        """The key of that sysroot."""
        return key_of(debian.load("sysroot").inputs())

    def rootfs(self, name: str) -> Path:
        """A root file system's tar."""
        return debian.build(self.store, debian.load(name))

    def component_key(self, name: str) -> str:
        """The key of a compiled component, built or not."""
        return key_of(golang.inputs(component(name), self.sysroot_key))

    def component_folder(self, name: str) -> Path:
        """A component's programs."""
        if name not in self._folders:
            self._folders[name] = golang.build(self.store, component(name), self.sysroot, self.sysroot_key)
        return self._folders[name]

    def chosen_key(self, name: str) -> str:
        """The same of what a table's name means in this lab."""
        return self.component_key(self.chosen.stands_for(name))

    def chosen_folder(self, name: str) -> Path:
        """The programs of what a table's name means in this lab."""
        return self.component_folder(self.chosen.stands_for(name))

    @cached_property
    def tags(self) -> dict[str, str]:
        """Image -> tag."""
        return images.content_tags(self._images, self.parts)

    @property
    def versions(self) -> dict[str, str]:
        """Component -> version, and some image tags."""
        found = numbers(self.chosen)
        found["pause"] = self.tags["registry.k8s.io/pause"]
        found["etcd-image"] = self.tags["registry.k8s.io/etcd"]
        found["coredns-image"] = self.tags["registry.k8s.io/coredns/coredns"]
        found["pod-network"] = self.tags["gpulab/pod-network"]
        found["workload"] = found["pytorch"] = found["tensorflow"] = self.tags["gpusmith/pytorch"]
        return found

    @property
    def signing_key(self) -> repos.SigningKey:
        """The key of the package repositories."""
        # Not in the cache: nodes that trust this key must go on when the cache was deleted.
        return repos.signing_key(state_dir() / "keys" / "apt")

    @cached_property
    def _simulation(self) -> Inputs:
        files = [LAB.parent / name for name in DATA_OF_SIMULATION]
        folders = [LAB / "simgpu", LAB / "gpulab" / "simgpu"]
        return {
            "folders": [digest_tree(path) for path in folders if path.is_dir()],
            "files": [digest_file(path) for path in files if path.is_file()],
            "sysroot": self.sysroot_key,
            # The kernel's headers are among the packages.
            "kernel": f"{os.uname().release} {os.uname().machine}",
        }

    def simulated(self) -> Path:
        """The folder with the repositories of the simulated driver's packages."""

        def build(folder: Path) -> None:
            targets = [folder / name for name in SIMULATED]
            for target in targets:
                target.mkdir()
            _simgpu("gpulab.simgpu.debian").build(*targets)

        return self.store.get(
            "simgpu-packages", self._simulation, build, "packages of the simulated GPU driver"
        )

    def packages(self) -> Path:
        """The folder with our own packages, by repository."""

        def build(folder: Path) -> None:
            for package in self._packages:
                target = folder / package.repository
                target.mkdir(exist_ok=True)
                debs.build(package, target, self.component_folder)

        return self.store.get(
            "packages", self._package_inputs, build, f"{len(self._packages)} Debian packages"
        )

    @cached_property
    def _package_inputs(self) -> Inputs:
        return {package.filename: debs.inputs(package, self.component_key) for package in self._packages}

    def _apt_inputs(self) -> Inputs:
        return {
            "packages": self._package_inputs,
            "simulation": self._simulation,
            "key": digest_file(self.signing_key.public),
            "repositories": list(REPOSITORIES),
        }

    def apt(self) -> Path:
        """The folder with all signed repositories."""

        def build(folder: Path) -> None:
            sources = [self.packages(), self.simulated()]
            for name in REPOSITORIES:
                archives = [path for source in sources for path in sorted((source / name).glob("*.deb"))]
                repos.place(archives, folder / name)
                repos.index(folder / name, name, self.signing_key)

        return self.store.get(
            "apt", self._apt_inputs(), build, f"{len(REPOSITORIES)} signed package repositories"
        )

    def registry(self) -> Path:
        """The registry's storage folder."""
        images.check_tags(self.chosen_folder(KUBERNETES), self.tags, self.store)
        return images.registry(self.store, self._registry, self._images, self.tags, self.parts)

    @property
    def _registry(self) -> str:
        # containerd is in no image.
        own = self.chosen.root(KUBERNETES)
        return f"registry-{own}" if own else "registry"

    @cached_property
    def other_releases(self) -> dict[str, OtherRelease]:
        """The packages of releases that are not the usual ones, by folder of the depot."""
        parts = (self.chosen, self.signing_key, self.chosen_key, self.chosen_folder)
        return {each.component: OtherRelease(self.store, each, *parts) for each in self.chosen.others}

    def _node(self, system: System) -> machine_images.MachineImage:
        simgpu = _simgpu("gpulab.simgpu")
        overlays: tuple[Path, ...] = (IMAGES / "node", simgpu.rootfs())
        overlays += tuple(IMAGES / name for name in system.overlays)
        # Last, because it may take away what the others need.
        hooks: tuple[Path, ...] = (simgpu.image_hook(), *(IMAGES / name for name in system.hooks))
        return machine_images.MachineImage(system.image, overlays, hooks=hooks, base=system.rootfs)

    @cached_property
    def _depot(self) -> machine_images.MachineImage:
        units = ("docker-registry.service", "nginx.service")
        return machine_images.MachineImage("depot", (IMAGES / "depot",), units=units)

    def machine_image(self, system: System) -> str:
        """Podman's name of the bare machine with that operating system."""
        image = self._node(system)
        return machine_images.ensure(image, lambda: self.rootfs(image.rootfs), self.store.root)

    def node_image(self) -> str:
        """Podman's name of the bare machine."""
        return self.machine_image(systems.system(systems.DEFAULT))

    def depot_image(self) -> str:
        """Podman's name of the depot."""
        return machine_images.ensure(self._depot, lambda: self.rootfs("depot"), self.store.root)

    @cached_property
    def families(self) -> Families:
        """The repositories of other operating systems."""
        parts = (self.component_key, self.component_folder)
        return Families(self.store, self._simulation, self.signing_key, *parts)

    def ensure_system(self, system: System) -> None:
        """Build what machines of one operating system need besides what all of them do."""
        self.machine_image(system)
        if system.own_repositories:
            self.families.ensure(system)

    def ensure_releases(self, wanted: Sequence[System]) -> None:
        """Build the packages of releases that are not the usual ones, for machines with these operating systems."""
        for each in self.other_releases.values():
            each.ensure(wanted)

    def _package_roots(self, wanted: Sequence[System]) -> dict[str, Path]:
        found = {system.name: self.families.path(system) for system in wanted if system.own_repositories}
        return found | {name: each.path(wanted) for name, each in self.other_releases.items()}

    def result(self, wanted: Sequence[System] = ()) -> Artifacts:
        """Where everything is, built or not."""
        registry = images.registry_inputs(self._images, self.tags, self.parts)
        return Artifacts(
            apt_root=self.store.path("apt", key_of(self._apt_inputs())),
            apt_key=self.signing_key.public,
            registry_root=self.store.path(self._registry, key_of(registry)),
            node_image=self._node(systems.system(systems.DEFAULT)).reference,
            depot_image=self._depot.reference,
            versions=self.versions,
            images={system.name: self._node(system).reference for system in wanted},
            package_roots=self._package_roots(wanted),
        )

    def complete(self) -> bool:
        """Whether nothing large is missing."""
        there = self.result()
        return there.apt_root.is_dir() and there.registry_root.is_dir()

    def lanes(self) -> tuple[list[Callable[[], object]], ...]:
        """What can be done side by side: compilers, which take all cores; their modules and archives, which wait for others."""
        fetched: list[Callable[[], object]] = [
            partial(golang.fetch, self.store, part, self.sysroot_key) for part in self.components
        ]
        compiled: list[Callable[[], object]] = [
            partial(self.component_folder, part.name) for part in self.components
        ]
        archives: list[Callable[[], object]] = [self.node_image, self.depot_image, self.simulated]
        bases = sorted({image.base for image in self._images if image.base})
        archives += [partial(images.base_layer, self.store, base, self.parts) for base in bases]
        without = [image for image in self._images if not image.components]
        archives += [partial(images.own_layer, self.store, image, self.parts) for image in without]
        return compiled, fetched, archives

    def names(self) -> dict[str, Callable[[], object]]:
        """What can be asked for by name, in building order."""
        found: dict[str, Callable[[], object]] = {}
        for part in self.components:
            found[part.name] = lambda name=part.name: self.component_folder(name)  # type: ignore[misc]
        found["node-image"] = self.node_image
        found["depot-image"] = self.depot_image
        found["packages"] = self.packages
        found["simgpu-packages"] = self.simulated
        found["apt"] = self.apt
        found["registry"] = self.registry
        return found


def side_by_side(lanes: Iterable[Sequence[Callable[[], object]]]) -> None:
    """Work on several lists at once; after a failure nothing new is begun."""
    stopped = threading.Event()

    def work(lane: Sequence[Callable[[], object]]) -> None:
        for build in lane:
            if not stopped.is_set():
                build()

    with ThreadPoolExecutor(thread_name_prefix="artifacts") as pool:
        try:
            for ended in as_completed([pool.submit(work, lane) for lane in lanes]):
                ended.result()
        finally:
            stopped.set()


def _any_rpm(wanted: Iterable[System]) -> bool:
    return any(system.manager == "dnf" for system in wanted)


def _simgpu(module: str) -> Any:
    # Imported here: it compiles C when asked, and nothing else of this package needs it.
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ToolError(f"The simulated GPU's part '{error.name}' is missing from this checkout.") from error


def store() -> Store:
    """The store of this user."""
    return Store(cache_dir() / "artifacts")


def ensure(
    only: Iterable[str] | None = None,
    operating_systems: Sequence[str] = (),
    chosen: Releases = USUAL,
) -> Artifacts:
    """Build what is missing and return where everything is; with a warm cache this takes about a second.

    Args:
        only: build only these (see `Builder.names`); the paths of the others are returned all the same.
        operating_systems: names of those that machines shall have; their images and repositories are built too.
        chosen: the lab's releases; packages of those that are not the usual ones are built too.

    Raises:
        ToolError: a program is missing, a name is unknown, or a build failed (names its log).
    """
    wanted_systems = systems.in_use(operating_systems)
    need_programs(PROGRAMS | (RPM_PROGRAMS if _any_rpm(wanted_systems) else {}))
    kept = store()
    with kept.lock():
        builder = Builder(kept, chosen)
        known = builder.names()
        wanted = list(known) if only is None else list(only)
        unknown = [name for name in wanted if name not in known]
        if unknown:
            raise ToolError(f"No artifact is named '{unknown[0]}'.", f"There are: {', '.join(known)}.")
        if only is None and not builder.complete():
            side_by_side(builder.lanes())
        for name in wanted:
            known[name]()
        for each in wanted_systems:
            builder.ensure_system(each)
        if only is None:
            builder.ensure_releases(wanted_systems)
        if kept.built:
            say(f"    artifacts are in '{kept.root}', logs in '{cache_dir() / 'logs'}'")
        return builder.result(wanted_systems)
