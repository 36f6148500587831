"""The next boot: the kernels that the machine can boot have the driver's module, and the next one that comes gets its headers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import cmp_to_key
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import rpm
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.base import alike

from gpusmith.data import compatibility
from gpusmith.expect import versions
from gpusmith.expect.wanted import Driver
from gpusmith.probe.kernels import Kernel
from gpusmith.probe.record import Record
from gpusmith.problems import Cure, Problem

DKMS = re.compile(r"nvidia-(?!headless-|fs-|peer).*dkms.*|kmod-nvidia-.*dkms")
"""Packages with sources of the driver's own modules, not of others that use it."""
READY = ("linux-modules-nvidia-*", "linux-objects-nvidia-*", "linux-signatures-nvidia-*")
"""Modules that come built have the version of their kernel, and one package for each release."""
BRINGS_NEXT = re.compile(r"linux-image-(?!.*\d+\.\d+\.\d)[a-z].*")
"""What brings the next kernel: a package without a release in its name."""

EL = re.compile(r"\.el\d")
"""In releases of kernels that rpm manages."""


def others(record: Record) -> list[Kernel]:
    """Kernels that can be booted, besides the running one. A folder of modules without a kernel is what a removed one left."""
    return [
        kernel
        for kernel in record.kernels or ()
        if kernel.image is not None and kernel.release != record.host.kernel
    ]


def bootable(record: Record) -> list[str]:
    """Releases that can be booted, the running one first."""
    running = [record.host.kernel] if record.host.kernel else []
    return [*running, *(kernel.release for kernel in others(record))]


def built(record: Record) -> set[str]:
    """Modules of the driver that came built, for whatever kernel, with what they consist of."""
    return {name for name in record.packages if alike(name, "", READY)}


def companions(record: Record, wanted: Driver) -> list[str]:
    """What is held with modules that come built: what brings the next kernel, and by patterns these modules, which are to come.

    It is all that `follow_each_other` finds afterwards.
    """
    return [*sorted(bring_next(record)), *READY] if wanted.layout.ready else []


def bring_next(record: Record) -> set[str]:
    """Packages that bring the next kernel."""
    return {name for name in record.packages if BRINGS_NEXT.fullmatch(name)}


def follow_each_other(record: Record) -> set[str]:
    """Packages of which none may move without the others: modules that come built, and what brings the next kernel.

    With a driver that is held, the next kernel would come without its module. Where DKMS builds it, the kernel may move.
    """
    ready = built(record)
    if not ready or any(DKMS.fullmatch(name) for name in record.packages):
        return set()
    return ready | bring_next(record)


def without_module(record: Record) -> list[str]:
    """Releases that have no module of the driver at all."""
    return [kernel.release for kernel in others(record) if kernel.module is None]


def newest(releases: Iterable[str]) -> str:
    """The release that a boot loader takes by itself: the highest one, by the order of its packages."""
    releases = list(releases)
    by_rpm = all(EL.search(release) for release in releases if release)
    return max(releases, key=cmp_to_key(rpm.compare) if by_rpm else _order, default="")


def _order(release: str) -> list[tuple[int, str]]:
    return [(int(number or 0), text) for number, text in re.findall(r"(\d*)(\D*)", release)]


def left_behind(record: Record, wanted: Driver) -> list[Kernel]:
    """Older kernels without the driver's module, for which none can be built: only a person at the boot menu takes one."""
    next_one = newest(
        [record.host.kernel or "", *(kernel.release for kernel in record.kernels or () if kernel.image)]
    )
    return [
        kernel
        for kernel in others(record)
        if not kernel.headers and kernel.release != next_one and not _is_right(kernel, wanted)
    ]


def _is_right(kernel: Kernel, wanted: Driver) -> bool:
    if kernel.module is None:
        return False
    return kernel.module_version is None or versions.is_version(
        kernel.module_version, versions.upstream(wanted.version)
    )


def without_driver(release: str) -> str:
    """What a person should know of a kernel that is left behind."""
    return (
        f"kernel {release} is installed, has no module of the driver and no headers to build one: a boot into it has no GPUs;"
        " remove that kernel"
    )


def unbuilt(record: Record, wanted: Driver) -> list[str]:
    """Releases for which a module could be built and was not.

    A driver's package builds for the running and the newest kernel only, and for none where DKMS was kept from building.
    """
    if wanted.layout.ready:
        return []
    release = record.host.kernel
    found = [kernel.release for kernel in others(record) if kernel.module is None and kernel.headers]
    bare = record.module.installed_version is None and any(
        kernel.release == release and kernel.headers for kernel in record.kernels or ()
    )
    return [release, *found] if release and bare else found


def to_build(record: Record, version: str) -> list[str]:
    """Releases that can be booted and have no module of a version; of one whose kernels were not read, the running one."""
    there = {kernel.release: kernel.module_version for kernel in record.kernels or () if kernel.image}
    there[record.host.kernel or ""] = record.module.installed_version
    return [release for release, found in there.items() if release and found != version]


def dkms_name(status: str, version: str) -> str:
    """What DKMS calls the driver's module; packagers differ.

    Args:
        status: output of 'dkms status'. Up to DKMS 2 a comma stands between name and version.
        version: of the driver, without the packager's part.
    """
    found = re.search(rf"(?m)^(nvidia[^/, ]*)(?:/|, ?){re.escape(version)}[,:]", status)
    return found[1] if found else "nvidia"


def problems(record: Record, wanted: Driver) -> list[Problem]:
    """Every other kernel has the driver's module, in the wanted version, but those that are left behind.

    The running one is judged with the driver.
    """
    node, found = wanted.node, []
    by_dkms = not any(_is_driver(name) for name in record.packages) or any(
        DKMS.fullmatch(name) for name in record.packages
    )
    left = left_behind(record, wanted)
    for kernel in others(record):
        release = kernel.release
        if kernel in left:
            continue
        evidence = {"kernel": release, "image": kernel.image, "module": kernel.module_version}
        if kernel.module is None:
            step, cure = (
                f"Run site.yml, which installs its headers and builds the module, or remove kernel {release}.",
                Cure.PACKAGES,
            )
            if wanted.layout.ready:
                step = f"Run site.yml, which installs its package if a repository has it, or remove kernel {release}."
            elif not by_dkms:
                step = f"Install the driver's module package of that kernel, or remove kernel {release}."
                cure = Cure.PERSON
            cause = f"Node '{node}': kernel {release} is installed and has no module 'nvidia': a boot into it has no GPUs."
            known = compatibility.load().no_build(
                record.module.flavour or "open", versions.upstream(wanted.version), release
            )
            if known is not None:
                cause = f"{cause[:-1]}. It is known not to compile ({known.why})."
                step, cure = f"Remove kernel {release}, or choose {known.instead}.", Cure.PERSON
            found.append(Problem(cause, step, evidence, cure))
        elif not _is_right(kernel, wanted):
            found.append(
                Problem(
                    f"Node '{node}': kernel {release} is installed with module {kernel.module_version},"
                    f" the inventory wants {wanted.version}.",
                    f"Look at 'dkms status' on '{node}'; 'dkms autoinstall -k {release}' builds it anew. Or remove that kernel.",
                    evidence,
                )
            )
    return found


def _is_driver(name: str) -> bool:
    return name.startswith(
        ("nvidia-driver", "libnvidia-ml", "libnvidia-compute", "libcuda1", "nvidia-smi", "nvidia-utils")
    )


# --- headers ---------------------------------------------------------------------------------------------------------


def header_packages(names: Mapping[str, Any], release: str) -> list[str]:
    """Packages with a kernel's headers, the one that has the files last."""
    given = names["headers"]
    return [str(name).format(kernel=release) for name in ([given] if isinstance(given, str) else given)]


def _not_there(record: Record, names: Mapping[str, Any], release: str) -> list[str]:
    """What DKMS requires beside a kernel's headers, in any version. If none is there, the newest comes, with its own kernel."""
    if not re.match(str(names["flavour"]), release):
        return []  # a kernel that the distribution does not have
    beside = header_packages(names, release)[:-1]
    return [name for name in beside if not {name, *rpm.names_of_builds([name])} & set(record.packages)]


def headers(record: Record, names: Mapping[str, Any], needed: bool = True) -> dict[str, list[str]]:
    """Packages of headers that DKMS needs and the node lacks.

    Args:
        record: of the node.
        names: what the operating system calls them: keys headers, flavour and next (pairs of kernel and headers).
        needed: whether the running kernel's module has to be built.

    Returns:
        'kernels' for kernels that are there, which a repository may no longer have; 'next' for what brings the next kernel's.
    """
    found: dict[str, list[str]] = {"kernels": [], "next": []}
    if not names:
        return found
    releases = without_module(record)
    if needed and record.host.kernel:
        releases = [record.host.kernel, *releases]
    # A package manager may name the package otherwise, as rpm, which has several of one name.
    there_already = {kernel.release for kernel in record.kernels or () if kernel.headers}
    lacking: list[str] = []
    for release in releases:
        wanted = header_packages(names, release)
        lacking += _not_there(record, names, release) if release in there_already else wanted
    found["kernels"] = [name for name in lacking if name not in record.packages]
    for release in {kernel.release for kernel in others(record)} | {record.host.kernel or ""}:
        flavour = re.match(str(names["flavour"]), release)
        if flavour is None:
            continue
        filled = {"flavour": flavour[1], "series": ".".join(release.split(".")[:2])}
        for pair in names["next"]:
            package = str(pair["headers"]).format(**filled)
            there = record.packages.get(str(pair["kernel"]).format(**filled))
            # Without it no kernel comes by itself, and a held one brings none.
            if there is not None and not there.held and package not in record.packages:
                found["next"].append(package)
    found["next"] = sorted(set(found["next"]))
    return found


def modules_to_come(record: Record, wanted: Driver, flavour: str) -> list[str]:
    """Modules that come built, for other kernels that have none and lack the package."""
    lacking = without_module(record)
    return [
        name
        for name in wanted.layout.ready_for_others.get(flavour, ())
        if name not in record.packages and name.endswith(tuple(f"-{release}" for release in lacking))
    ]


def unprepared(packages: list[str], node: str) -> list[Problem]:
    """The next kernel would come without its headers, and then without the driver."""
    return [
        Problem(
            f"Node '{node}': package '{name}' is not installed: the next kernel comes without headers and without the driver.",
            "Run site.yml, or hold the kernel's package.",
            {"missing": name},
            Cure.PACKAGES,
        )
        for name in packages
    ]


LOST = {
    "nvidia": "has no GPUs",
    "nvidia_uvm": "runs no CUDA program",
    "nvidia_modeset": "has no 'nvidia_drm', which graphics need",
}
"""By module of the driver, what a boot lacks that does not load it."""


def blocked(record: Record, node: str) -> list[Problem]:
    """A line of modprobe.d or of the kernel has the next boot come up without GPUs, however well the driver runs now."""
    found = []
    for name, bars in (record.boot.driver if record.boot is not None else {}).items():
        evidence = {f"kept_out_{name}": {key: path for key, path in asdict(bars).items() if path}}
        if bars.refused:
            cause = f"'module_blacklist' in '{bars.refused}' has the kernel refuse module '{name}': such a boot {LOST[name]}."
            step = (
                f"Take '{name}' out of 'module_blacklist' in the settings of the boot loader of '{node}'."
                " Where the module is not loaded now, drain and reboot the node then."
            )
            found.append(Problem(f"Node '{node}': {cause}", step, evidence))
        if bars.install:
            cause = (
                f"'{bars.install}' keeps module '{name}' from being loaded: the next boot {LOST[name]}."
                if bars.softdep is None
                else f"'{bars.install}' says that module '{name}' is not to be loaded; only the line with 'softdep' in"
                f" '{bars.softdep}', which takes precedence, has it loaded. A boot without that line {LOST[name]}."
            )
            step = f"Find out who wrote the line with 'install' into '{bars.install}', and take it out."
            found.append(Problem(f"Node '{node}': {cause}", step, evidence))
    return found


def by_name_only(record: Record) -> list[str]:
    """Modules of the driver that are blacklisted, in words: no fault, since the driver's units load them by name."""
    rows = (record.boot.driver if record.boot is not None else {}).items()
    return [
        f"'{bars.blacklist}' blacklists module '{name}': boots load it by its name, as units of the driver do, and not for"
        " a GPU that they find"
        for name, bars in rows
        if bars.blacklist
    ]
