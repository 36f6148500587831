"""Modules of the kernel that a node needs, and kernels that lack them: some systems have a part of them in another package."""

from __future__ import annotations

from collections.abc import Iterable

from gpusmith.expect import kernels
from gpusmith.expect.wanted import Baseline
from gpusmith.probe.record import Record
from gpusmith.problems import Cure, Problem
from gpusmith.wording import quoted


def lacking(record: Record, names: Iterable[str]) -> dict[str, list[str]]:
    """Modules that the running kernel or the one that boots next has neither as files nor as parts of itself, by release.

    The probe looks for a few in each kernel, and only those are found. If the running kernel has a module that none of its
    files shows, the machine is a container, whose files do not describe kernels.
    """
    known = {kernel.release: kernel.lacking for kernel in record.kernels or ()}
    running = record.host.kernel or ""
    if running not in known:
        return {}
    unseen = {name for name in known[running] if record.system.modules.get(name)}
    sought = [name for name in names if name not in unseen]
    found = {
        release: [name for name in sought if name in known.get(release, ())]
        for release in (running, kernels.newest(kernels.bootable(record)))
    }
    return {release: missing for release, missing in found.items() if missing}


def packages(template: str, record: Record, names: Iterable[str]) -> dict[str, str]:
    """By release of a kernel that lacks modules, the package that has its further ones.

    Args:
        template: of the package's name, with '{kernel}'; empty where an operating system has none.
        record: of the node.
        names: of modules.
    """
    return {release: template.format(kernel=release) for release in lacking(record, names) if template}


def problems(record: Record, wanted: Baseline) -> list[Problem]:
    """The kernel that boots next lacks modules. Those that the running one lacks are not loaded, which is told as that."""
    return [
        Problem(
            f"Node '{wanted.node}': kernel '{release}', which boots next, has no module {quoted(names)}.",
            "Run site.yml for the node: it installs the package that has them, if a repository offers one.",
            {f"module_{name}": {"lacking_in": release} for name in names},
            Cure.HOST,
        )
        for release, names in lacking(record, wanted.modules).items()
        if release != record.host.kernel
    ]
