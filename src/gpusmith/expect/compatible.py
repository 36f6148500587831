"""Whether versions go together, and with GPUs, by the tables of data/compatibility.yml.

Preflight asks about versions that the inventory wants, the suite about those that a node has. What a row excludes is wrong for
both. Of what no row knows, preflight refuses the machine before anything is installed, and the suite names it on one that runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpusmith.data.compatibility import Compatibility, Limits
from gpusmith.data.models import Model
from gpusmith.expect.layouts import branch_of
from gpusmith.expect.versions import is_open, is_version, numbers
from gpusmith.wording import quoted


class Subject(StrEnum):
    """What was compared."""

    KUBERNETES = "Kubernetes version"
    CONTAINERD = "containerd and Kubernetes"
    TOOLKIT = "container toolkit"
    TOOLKIT_AND_PLUGIN = "container toolkit and device plugin"
    DRIVER = "driver for this GPU"
    CUDA = "CUDA version"
    CUDA_AND_DRIVER = "CUDA and driver"
    CUDA_ON_GPU = "CUDA for this GPU"


@dataclass(frozen=True)
class Misfit:
    """Versions that do not go together, or of which that is not known.

    Attributes:
        found: what was asked about.
        allowed: what would do.
        known: whether a row excludes it; else no row knows it.
    """

    subject: Subject
    found: str
    allowed: str
    known: bool = True


# --- container runtime -----------------------------------------------------------------------------------------------


def containerd(version: str, kubernetes: str, known: Compatibility) -> Misfit | None:
    """Kubernetes supports a containerd."""
    rows, release = known.containerd, numbers(version)[:2]
    minor = ".".join(str(part) for part in numbers(kubernetes)[:2])
    if minor not in rows:
        return Misfit(Subject.KUBERNETES, f"'{kubernetes}'", quoted(f"{row}.x" for row in rows), known=False)
    first = next((good for good in rows[minor] if numbers(good)[:2] == release), None)
    if first is not None and numbers(version) >= numbers(first):
        return None
    newest = max(numbers(good)[:2] for row in rows.values() for good in row)
    return Misfit(
        Subject.CONTAINERD,
        f"containerd '{version}' with Kubernetes '{kubernetes}'",
        quoted(f"{good} and later patches" for good in rows[minor]),
        known=release <= newest,
    )


def container_toolkit(version: str, known: Compatibility) -> Misfit | None:
    """A container toolkit is not a release that harms nodes."""
    bad = next((row for release, row in known.toolkit_refused.items() if is_version(version, release)), None)
    return (
        Misfit(Subject.TOOLKIT, f"version '{version}': {bad.why}", f"'{bad.instead}' or newer")
        if bad
        else None
    )


def container_toolkit_with_our_plugin(version: str, known: Compatibility) -> Misfit | None:
    """A container toolkit's runtime uses CDI by itself, by which our device plugin hands out GPUs."""
    least = known.toolkit_cdi_minimum
    if numbers(version) >= numbers(least):
        return None
    return Misfit(
        Subject.TOOLKIT_AND_PLUGIN,
        f"version '{version}', whose runtime does not use CDI by itself",
        f"'{least}' or newer with our device plugin, which hands out GPUs by CDI",
    )


# --- driver and CUDA -------------------------------------------------------------------------------------------------


def driver(version: str, model: Model, known: Compatibility) -> Misfit | None:
    """A driver's branch supports a GPU."""
    branches = known.driver_branches(model.architecture, model.min_driver_branch)
    if branches.has(branch_of(version)):
        return None
    return Misfit(
        Subject.DRIVER,
        f"driver '{version}'",
        f"{branches.words} for '{model.key}' ({model.architecture})",
    )


def cuda_with_driver(version: str, driver: str, known: Compatibility) -> Misfit | None:
    """Programs of a CUDA toolkit run with a driver; any version of CUDA that is known will do if the driver's is open."""
    rows = known.driver_for_cuda
    least = rows.get(version.split(".", maxsplit=1)[0])
    if least is None:
        return Misfit(Subject.CUDA, f"'{version}'", quoted(f"{cuda}.x" for cuda in rows), known=False)
    if is_open(driver) or branch_of(driver) >= least:
        return None
    return Misfit(
        Subject.CUDA_AND_DRIVER, f"CUDA '{version}' with driver '{driver}'", f"driver branch {least} or newer"
    )


def cuda_on_gpu(version: str, model: Model, known: Compatibility) -> Misfit | None:
    """A CUDA toolkit makes programs for a GPU."""
    limits = known.architectures.get(model.architecture, Limits())
    if limits.last_cuda and numbers(version)[:1] > numbers(limits.last_cuda):
        return Misfit(Subject.CUDA_ON_GPU, f"CUDA '{version}'", f"{limits.last_cuda}.x or older")
    if limits.first_cuda and numbers(version) < numbers(limits.first_cuda):
        return Misfit(Subject.CUDA_ON_GPU, f"CUDA '{version}'", f"{limits.first_cuda} or newer")
    return None
