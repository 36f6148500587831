"""Whether the machine's kernels have the modules that role host_baseline loads, or a package that brings them can be had."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpusmith.errors import Refusal
from gpusmith.expect import kernel_modules
from gpusmith.preflight.words import Facts, Tables, Wanted, refusal
from gpusmith.probe.record import Record
from gpusmith.wording import quoted


@dataclass(frozen=True)
class Lack:
    """A kernel without wanted modules.

    Attributes:
        release: of the kernel.
        modules: that it lacks.
        package: that has them; empty where the operating system has no such package.
    """

    release: str
    modules: tuple[str, ...]
    package: str


def lacks(record: Record, wanted: Wanted, template: str) -> list[Lack]:
    """The running kernel and the one that boots next, if they lack modules.

    Args:
        record: of the node.
        wanted: what the inventory says.
        template: name of the package that has a kernel's further modules, with '{kernel}'; empty if there is none.
    """
    if wanted.driver_only:
        return []
    return [
        Lack(release, tuple(modules), template.format(kernel=release))
        for release, modules in kernel_modules.lacking(record, wanted.node.baseline.modules).items()
    ]


def check_kernel_modules(facts: Facts, _wanted: Wanted, _tables: Tables) -> Iterator[Refusal]:
    """Modules that a kernel lacks come with a package that some repository of the machine offers."""
    running = facts["record"]["host"]["kernel"]
    for lack in facts["kernel_modules"]:
        if lack.package and lack.package not in facts["packages_lacking"]:
            continue
        next_one = "" if lack.release == running else ", which boots next,"
        nobody = f", and no repository offers '{lack.package}', which has them" if lack.package else ""
        yield refusal(
            "kernel modules",
            f"kernel '{lack.release}'{next_one} has no {quoted(lack.modules)}{nobody}",
            "modules of 'host_baseline_modules' in each kernel, or a package that has them",
            "Install the distribution's current kernel and boot it, or add a repository that has this package."
            if lack.package
            else "Boot a kernel of the distribution that has them, or correct 'host_baseline_modules'.",
        )
