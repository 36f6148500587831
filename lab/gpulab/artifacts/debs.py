"""Debian packages from compiled programs, as lab/packages/*.yml describes them."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpulab.artifacts import components, upstream
from gpulab.artifacts.sources import PACKAGES
from gpulab.artifacts.store import Inputs, digest_file
from gpulab.progress import run_logged
from gpulab.releases import USUAL, Releases
from gpusmith import yaml_text
from gpusmith.errors import ToolError
from gpusmith.paths import cache_dir

RECIPE = 2  # raise when this file changes what comes out
RELATIONS = ("pre_depends", "depends", "recommends", "provides", "conflicts", "breaks", "replaces")
MAINTAINER = "gpusmith lab <lab@gpusmith.invalid>"

# What debhelper would write: units are enabled on the first installation unless an administrator said otherwise.
ENABLE = """\
deb-systemd-helper unmask '{unit}' >/dev/null || true
if deb-systemd-helper --quiet was-enabled '{unit}'; then
    deb-systemd-helper enable '{unit}' >/dev/null || true
else
    deb-systemd-helper update-state '{unit}' >/dev/null || true
fi
"""
START = """\
if [ -d /run/systemd/system ]; then
    systemctl --system daemon-reload >/dev/null || true
    if [ -n "$2" ]; then action=restart; else action=start; fi
    deb-systemd-invoke $action {units} >/dev/null || true
fi
"""
STOP = """\
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then deb-systemd-invoke stop {units} >/dev/null || true; fi
"""
RELOAD = """\
if [ -d /run/systemd/system ]; then systemctl --system daemon-reload >/dev/null || true; fi
"""
FORGET = """\
if [ "$1" = purge ] && [ -x /usr/bin/deb-systemd-helper ]; then deb-systemd-helper purge {units} >/dev/null || true; fi
"""


@dataclass(frozen=True)
class Package:
    """One binary package.

    Attributes:
        repository: the apt repository that it is for.
        name: package name.
        version: with Debian revision.
        description: synopsis, then the long text.
        files: path -> where it comes from: go:COMPONENT/PROGRAM, file:NAME (lab/packages/files) or upstream:COMPONENT:PATH.
        links: path -> target.
        relations: field of RELATIONS -> entries.
        units: systemd units that are enabled and started.
        postinst: shell lines for 'configure'.
        section: Debian's section.
    """

    repository: str
    name: str
    version: str
    description: str
    files: Mapping[str, str]
    links: Mapping[str, str] = field(default_factory=dict)
    relations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    units: tuple[str, ...] = ()
    postinst: str = ""
    section: str = "admin"

    @property
    def components(self) -> tuple[str, ...]:
        """The compiled components that it takes programs from."""
        return tuple(
            sorted({item[3:].partition("/")[0] for item in self.files.values() if item.startswith("go:")})
        )

    @property
    def filename(self) -> str:
        """The archive's name."""
        return f"{self.name}_{self.version}_amd64.deb"


def load(folder: Path = PACKAGES, chosen: Releases = USUAL) -> list[Package]:
    """All packages, with versions filled in.

    Args:
        folder: with the tables.
        chosen: the lab's releases.

    Raises:
        ToolError: a description has an unknown key.
    """
    versions = components.numbers(chosen)
    found = []
    for path in sorted(folder.glob("*.yml")):
        document = yaml_text.load(path.read_text())
        found += [_package(document["repository"], entry, versions, path) for entry in document["packages"]]
    return found


def _package(repository: str, entry: dict[str, Any], versions: Mapping[str, str], path: Path) -> Package:
    known = {"name", "version", "description", "files", "links", "units", "postinst", "section", *RELATIONS}
    unknown = sorted(set(entry) - known)
    if unknown:
        raise ToolError(f"'{path}' has unknown keys for package '{entry.get('name')}': {', '.join(unknown)}.")
    return Package(
        repository=repository,
        name=entry["name"],
        version=entry["version"].format(**versions),
        description=entry["description"],
        files=entry.get("files", {}),
        links=entry.get("links", {}),
        relations={
            name: tuple(item.format(**versions) for item in entry[name])
            for name in RELATIONS
            if name in entry
        },
        units=tuple(entry.get("units", ())),
        postinst=entry.get("postinst", ""),
        section=entry.get("section", "admin"),
    )


def inputs(package: Package, component_key: Callable[[str], str]) -> Inputs:
    """What decides a package's content."""
    local = {
        item: digest_file(PACKAGES / "files" / item[5:])
        for item in package.files.values()
        if item.startswith("file:")
    }
    return {
        "recipe": RECIPE,
        "package": [package.name, package.version, package.description, package.postinst, package.section],
        "files": dict(package.files),
        "links": dict(package.links),
        "relations": {name: list(items) for name, items in package.relations.items()},
        "units": list(package.units),
        "local": local,
        "components": {name: component_key(name) for name in package.components},
    }


def control(package: Package, installed_kib: int) -> str:
    """The control file."""
    lines = [
        f"Package: {package.name}",
        f"Version: {package.version}",
        "Architecture: amd64",
        f"Maintainer: {MAINTAINER}",
    ]
    lines += [f"Installed-Size: {installed_kib}", f"Section: {package.section}", "Priority: optional"]
    for name, items in package.relations.items():
        lines.append(f"{name.replace('_', '-').title()}: {', '.join(items)}")
    synopsis, *text = package.description.splitlines()
    lines += [f"Description: {synopsis}", *(f" {line}" for line in text)]
    return "\n".join(lines) + "\n"


def scripts(package: Package) -> dict[str, str]:
    """The maintainer scripts that the package needs, by name."""
    units = " ".join(f"'{unit}'" for unit in package.units)
    postinst = f"{package.postinst}\n" if package.postinst else ""
    found: dict[str, str] = {}
    if package.units:
        postinst += "".join(ENABLE.format(unit=unit) for unit in package.units) + START.format(units=units)
        found["prerm"] = STOP.format(units=units)
        found["postrm"] = RELOAD + FORGET.format(units=units)
    if postinst:
        found["postinst"] = f'if [ "$1" = configure ]; then\n{postinst}fi\n'
    return {name: f"#!/bin/sh\nset -e\n{text}" for name, text in found.items()}


def build(package: Package, folder: Path, component_folder: Callable[[str], Path]) -> Path:
    """Write the package's archive into a folder.

    Raises:
        ToolError: a source is missing, or dpkg-deb failed.
    """
    root = folder / f".{package.name}"
    root.mkdir()
    for path, source in package.files.items():
        for target, origin in sources(path, source, component_folder):
            place = root / target.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(origin, place)
            place.chmod(0o755 if source.startswith("go:") else 0o644)
    for path, link in package.links.items():
        (root / path.lstrip("/")).symlink_to(link)
    _metadata(package, root)
    archive = folder / package.filename
    # zstd is quick, and apt of Debian 12 and later reads it.
    command: list[str | Path] = ["dpkg-deb", "--build", "--root-owner-group", "-Zzstd", "-z3", root, archive]
    run_logged(command, cache_dir() / "logs" / "packages.log", env={"SOURCE_DATE_EPOCH": "0"})
    shutil.rmtree(root)
    return archive


def sources(path: str, source: str, component_folder: Callable[[str], Path]) -> list[tuple[str, Path]]:
    """The files that one entry of a table stands for, by their path on the target.

    Raises:
        ToolError: the entry is of an unknown kind.
    """
    kind, _, rest = source.partition(":")
    if kind == "go":
        component, _, program = rest.partition("/")
        folder = component_folder(component)
        if program == "*":
            return [(f"{path}{each.name}", each) for each in sorted(folder.iterdir())]
        return [(path, folder / program)]
    if kind == "file":
        return [(path, PACKAGES / "files" / rest)]
    if kind == "upstream":
        component, _, name = rest.partition(":")
        return [(path, upstream.module_file(component, name))]
    raise ToolError(f"A package's file '{path}' is of unknown kind '{source}'.")


def _metadata(package: Package, root: Path) -> None:
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and not path.is_symlink()]
    size = sum(path.stat().st_size for path in files) // 1024 + 1
    sums = "".join(
        f"{hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()}  {path.relative_to(root)}\n"
        for path in files
    )
    configuration = "".join(
        f"/{path.relative_to(root)}\n" for path in files if path.relative_to(root).parts[0] == "etc"
    )
    debian = root / "DEBIAN"
    debian.mkdir()
    (debian / "control").write_text(control(package, size))
    (debian / "md5sums").write_text(sums)
    if configuration:
        (debian / "conffiles").write_text(configuration)
    for name, text in scripts(package).items():
        (debian / name).write_text(text)
        (debian / name).chmod(0o755)
    for path in [root, *root.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
