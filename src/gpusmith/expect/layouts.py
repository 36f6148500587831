"""What the driver's packages are called: from the rows of an operating system's file to the names for one version on one machine.

The rows stand in `roles/nvidia_driver/vars`. Role, preflight and upgrade all come here for names, so that what is checked before
a change is what is installed, and what a way back goes to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpusmith.errors import GpusmithError
from gpusmith.expect.versions import upstream
from gpusmith.inventory import building
from gpusmith.wanted.node import Driver

Row = Mapping[str, Any]
Layouts = Mapping[str, Sequence[Row]]
"""Rows by name of the layout: `nvidia` for NVIDIA's repository, `distribution` for what the distribution packages itself."""
KERNEL = "{kernel}"
VERSION_IN_NAME = re.compile(r"-\d{3}\.\d+(?:\.\d+)*(?=-|$)")
SERVER = "-server"
SET = "nvidia-driver"
"""Name of the driver's set for module packages, of which repository, key and pins have their names."""
BRANCH_IN_NAME = re.compile(r"-(\d{3})(?=-|$)")
DKMS, PREBUILT = building.DKMS, building.PREBUILT
"""Where a module comes from: built on the node, or ready for one kernel, with that kernel's version."""


class Unmet(GpusmithError):  # noqa: N818 - it says what the settings are
    """No driver can be what the settings ask for on this machine."""


@dataclass(frozen=True)
class Layout:
    """Names of the driver's packages in a repository.

    Attributes:
        packages: those that must be there.
        kernel: packages of the driver's version that go with a flavour of the module.
        ready: modules that come built for the running kernel, by flavour; they have the kernel's version.
        ready_for_others: likewise, for other kernels that can be booted.
        fabric_manager: its package; empty if there is none.
        subnet_manager: packages of the NVLink subnet manager, which fabric managers of NVLink 5 need, with versions of their own.
        subnet_manager_tools: what both need of the operating system, and others may use: not held, and never removed.
        components: package by name of a part of the driver that not every machine needs.
        others: packages with versions of their own.
        helpers: likewise, what comes along with the driver and serves nothing else.
        patterns: names of all that belong to the driver, as shell patterns.
        stands_for_all: the package whose version is the driver's.
        daemon_drop_in: whether the unit of the driver's daemon needs one of ours to run at boot, and to keep GPUs initialised.
        foreign: names that only other branches have, without a branch in them.
        versioned: names that carry a branch or a version, as shell patterns with {branch} or {version}.
        pinning: likewise, packages that allow the package manager one branch or version of the driver only.
        own: likewise, names for which others of the row stand, or that come with these.
        kinds: all packages by which a module of a flavour comes, and what comes with them only.
        demanded: whether these very packages must be there. They need not be on a node whose driver others brought.
    """

    packages: tuple[str, ...]
    kernel: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ready: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ready_for_others: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    fabric_manager: str = ""
    subnet_manager: tuple[str, ...] = ()
    subnet_manager_tools: tuple[str, ...] = ()
    components: Mapping[str, str] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    helpers: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    stands_for_all: str = ""
    daemon_drop_in: bool = False
    foreign: frozenset[str] = frozenset()
    versioned: tuple[str, ...] = ()
    pinning: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    kinds: Mapping[str, frozenset[str]] = field(default_factory=dict)
    demanded: bool = True


ANY_LAYOUT = Layout(
    packages=("nvidia-driver-cuda", "nvidia-smi", "libcuda1", "libnvidia-ml1", "nvidia-driver"),
    patterns=(
        "libnvidia-*",
        "firmware-nvidia-*",
        "nvidia-firmware*",
        "nvidia-kernel-*",
        "nvidia-open-kernel-*",
        "nvidia-dkms-*",
        "nvidia-utils-*",
        "nvidia-compute-utils-*",
        "nvidia-headless-*",
        "nvidia-driver-cuda*",
        "nvidia-kmod-common",
        "kmod-nvidia-*",
        "libnvcuvid1",
        "libnvoptix1",
    ),
    subnet_manager=("nvlsm",),
    versioned=("nvidia-firmware-{branch}-server-{version}", "nvidia-firmware-{branch}-{version}"),
    kinds={
        "open": frozenset({"nvidia-kernel-open-dkms", "nvidia-open-kernel-dkms"}),
        "proprietary": frozenset({"nvidia-kernel-dkms"}),
    },
    demanded=False,
)
"""Packages of the driver's libraries, tools and modules in all layouts. Helpers (nvidia-modprobe) may have their own versions."""


def branch_of(version: str) -> int:
    """Branch of a driver's version; 0 if it has none."""
    first = upstream(version).split(".", maxsplit=1)[0]
    return int(first) if first.isdigit() else 0


def brings_another(package: str, offered: Sequence[str]) -> str:
    """The driver that a transitional package brings: its name has one branch, and all its versions are of another; else empty.

    Canonical builds the packages of a branch that has ended from the source of the next one.
    """
    own = BRANCH_IN_NAME.search(package)
    if own is None or not offered or any(branch_of(version) == int(own[1]) for version in offered):
        return ""
    return upstream(offered[0])


def rows_of(layouts: Layouts, name: str) -> Sequence[Row]:
    """The rows of a layout.

    Raises:
        Unmet: nobody knows it on this operating system.
    """
    if name not in layouts:
        known = " or ".join(f"'{each}'" for each in layouts)
        raise Unmet(
            f"'nvidia_driver_package_layout' is '{name}', and on this operating system it can be {known}.",
            "Correct it, and 'nvidia_driver_repository' with it.",
        )
    return layouts[name]


def _span(row: Row) -> str:
    first, last = row.get("from"), row.get("to")
    if first and last:
        return str(first) if first == last else f"{first} to {last}"
    return f"{first} and newer" if first else f"up to {last}"


def row_for(rows: Sequence[Row], version: str) -> Row:
    """The row of a version's branch.

    Raises:
        Unmet: no row has it, or its packages only lead to another branch.
    """
    branch = branch_of(version)
    found = next(
        (row for row in rows if int(row.get("from", 0)) <= branch <= int(row.get("to", branch))), None
    )
    if found is None:
        spans = ", ".join(_span(row) for row in rows if "leads_to" not in row)
        raise Unmet(
            f"No package names are known for driver branch {branch} here, only for branches {spans}.",
            "Correct 'nvidia_driver_version' or 'nvidia_driver_package_layout'.",
        )
    if "leads_to" in found:
        name = str(found["package"]).format(branch=branch)
        raise Unmet(
            f"'{name}' and the other packages of branch {branch} are transitional: they bring branch {found['leads_to']}.",
            f"Set 'nvidia_driver_version' to a version of branch {found['leads_to']}.",
        )
    return found


def _names(row: Row) -> frozenset[str]:
    """All names of a row, as they stand there."""
    if "leads_to" in row:
        return frozenset()
    by_flavour = [row.get("with_module") or {}, *row["module"].values()]
    names = [*row["packages"], row.get("fabric_manager") or ""]
    names += [name for flavours in by_flavour for each in flavours.values() for name in each]
    return frozenset(name for name in names if name)


def _plain_names(row: Row) -> frozenset[str]:
    """Names of a row that say nothing of a branch."""
    return frozenset(name for name in _names(row) if "{" not in name)


def _along(row: Row) -> list[str]:
    """Names of what comes with those of a row, as they stand there."""
    by_kind: Mapping[str, Sequence[str]] = row.get("along_module") or {}
    return [*(row.get("along") or ()), *(name for names in by_kind.values() for name in names)]


def in_another_branch(name: str, version: str) -> list[str]:
    """What a package with a branch or a version in its name can be called for another version: with its own, or without any.

    Ubuntu's archive calls the branches for servers so, and NVIDIA's repository does not.
    """
    if found := VERSION_IN_NAME.search(name):
        return [name.replace(found[0], f"-{upstream(version)}")]
    replaced = BRANCH_IN_NAME.sub(f"-{branch_of(version)}", name)
    plain = BRANCH_IN_NAME.sub("", name)
    names = [replaced, replaced.replace(SERVER, ""), plain, plain.replace(SERVER, "")]
    return list(dict.fromkeys(names))


def of_machine(known: Layouts, asked: Driver, version: str, releases: Sequence[str]) -> Layout:
    """What the packages of a version are called on a machine.

    Args:
        known: rows of its operating system.
        asked: what the inventory asks for.
        version: the exact one.
        releases: see `layout`.

    Raises:
        Unmet: there are no such packages.
    """
    every = [row for rows in known.values() for row in rows]
    return layout(rows_of(known, asked.package_layout), version, releases, asked.module_build, every)


def layout(
    rows: Sequence[Row],
    version: str,
    kernels: Sequence[str] = (),
    build: str = DKMS,
    known: Sequence[Row] = (),
) -> Layout:
    """The one decision: what a driver's packages are called.

    Args:
        rows: of a layout of the operating system.
        version: of the driver.
        kernels: releases that the machine can boot, the running one first; empty if they are not known.
        build: where the module comes from, 'dkms' or 'prebuilt'.
        known: rows of all layouts of the operating system, by which the driver that is there may have come.

    Raises:
        Unmet: there are no such packages.
    """
    row = row_for(rows, version)
    words = {"branch": str(branch_of(version)), "version": upstream(version)}
    module: Mapping[str, Mapping[str, Sequence[str]]] = row["module"]
    if build not in module:
        raise Unmet(
            f"This layout has no modules that come built for a kernel, as 'nvidia_driver_module_build: {build}' asks for.",
            "Set it to 'dkms', or use the distribution's own packages with 'nvidia_driver_package_layout: distribution'.",
        )

    def named(names: Iterable[str], releases: Sequence[str] = ()) -> tuple[str, ...]:
        return tuple(
            name.format(**words, kernel=release)
            for name in names
            for release in (releases if KERNEL in name else ("",))
        )

    def of(source: str, releases: Sequence[str] = ()) -> dict[str, tuple[str, ...]]:
        return {flavour: named(names, releases) for flavour, names in module.get(source, {}).items()}

    beside = row.get("with_module") or {}
    along = row.get("along_module") or {}
    here = PREBUILT if build == PREBUILT else ""
    sources = [of(DKMS), of(PREBUILT, kernels)]
    return Layout(
        packages=named(row["packages"]),
        kernel={
            flavour: (*named(beside.get(flavour, ())), *(of(DKMS)[flavour] if build == DKMS else ()))
            for flavour in module[build]
        },
        ready=of(here, kernels[:1]),
        ready_for_others=of(here, kernels[1:]),
        fabric_manager=str(row.get("fabric_manager") or "").format(**words),
        subnet_manager=tuple(row.get("subnet_manager") or ()),
        subnet_manager_tools=tuple(row.get("subnet_manager_tools") or ()),
        components={name: str(each).format(**words) for name, each in (row.get("components") or {}).items()},
        others=named(row.get("others") or ()),
        helpers=tuple(row.get("helpers") or ()),
        patterns=tuple(row["patterns"]),
        stands_for_all=str(row["stands_for_all"]).format(**words),
        daemon_drop_in=bool(row.get("daemon_drop_in")),
        foreign=frozenset().union(*(_plain_names(each) for each in rows if each is not row))
        - _plain_names(row),
        versioned=tuple(row.get("versioned") or ()),
        pinning=tuple(row.get("pinning") or ()),
        own=tuple(sorted({name for each in known or rows for name in (*_names(each), *_along(each))})),
        kinds={
            flavour: frozenset(name for source in sources for name in source.get(flavour, ())).union(
                named(beside.get(flavour, ())), named(along.get(flavour, ()))
            )
            for flavour in {flavour for source in sources for flavour in source}
        },
    )
