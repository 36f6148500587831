"""Versions that a node has: whether they go together, and with its GPUs. Of what no row of the tables knows nothing is wrong."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpusmith.data import compatibility
from gpusmith.expect import compatible, fabric, libraries, steps, versions
from gpusmith.expect.compatible import Misfit
from gpusmith.expect.containerd import TOOLKIT
from gpusmith.expect.wanted import Driver
from gpusmith.probe.cuda import FOLDER
from gpusmith.probe.record import Record
from gpusmith.problems import Cure, Problem


def _unknown(found: Iterable[Misfit | None]) -> str:
    """What could not be judged, for a person; empty if everything was."""
    return " ".join(
        f"{unfit.subject}: {unfit.found}, which data/compatibility.yml does not know (only {unfit.allowed});"
        " whether that fits was not judged."
        for unfit in found
        if unfit and not unfit.known
    )


# --- container runtime -----------------------------------------------------------------------------------------------


def _containerd(record: Record) -> Misfit | None:
    version, kubelet = record.containerd.version, record.kubernetes.kubelet_version
    return compatible.containerd(version, kubelet, compatibility.load()) if version and kubelet else None


def containerd_evidence(record: Record) -> dict[str, str | None]:
    """What is compared."""
    return {"containerd": record.containerd.version, "kubelet": record.kubernetes.kubelet_version}


def containerd(record: Record, node: str) -> list[Problem]:
    """Kubernetes supports the containerd of the node; nothing is said if either does not tell its version."""
    unfit = _containerd(record)
    if unfit is None or not unfit.known:
        return []
    return [
        Problem(
            f"Node '{node}' has {unfit.found}, which does not support it; allowed: {unfit.allowed}.",
            f"Set 'containerd_version' to one of these, {steps.change_runtime(node)}.",
            containerd_evidence(record),
            Cure.UPGRADE,
        )
    ]


def containerd_unknown(record: Record) -> str:
    """Why that cannot be judged; empty if it can."""
    return _unknown([_containerd(record)])


def container_toolkit_of(record: Record) -> str | None:
    """Version of the container toolkit; None if no package brought it."""
    return next((record.packages[name].version for name in TOOLKIT if name in record.packages), None)


def container_toolkit(record: Record, node: str, our_plugin: bool) -> list[Problem]:
    """The container toolkit is not a release that harms the node, and uses CDI where our device plugin does."""
    version, known = container_toolkit_of(record) or "", compatibility.load()
    found = [compatible.container_toolkit(version, known)]
    if our_plugin:
        found.append(compatible.container_toolkit_with_our_plugin(version, known))
    return [
        Problem(
            f"Node '{node}': the container toolkit has {unfit.found}; allowed: {unfit.allowed}.",
            f"Set 'nvidia_container_toolkit_version' to such a release, {steps.change_runtime(node)}.",
            {"container_toolkit": version},
            Cure.UPGRADE,
        )
        for unfit in found
        if version and unfit
    ]


# --- driver and CUDA -------------------------------------------------------------------------------------------------


def driver_version(record: Record) -> str | None:
    """Version of the driver that runs, else of the one that the next load brings."""
    return record.module.loaded_version or record.module.installed_version


def driver(record: Record, wanted: Driver) -> list[Problem]:
    """The driver's branch supports the GPUs; nothing is said of a machine that has none."""
    node, known, version = wanted.node, compatibility.load(), driver_version(record)
    if version is None:
        return []
    step, cure = libraries.version_step(record, wanted)
    found = []
    for model in fabric.models_of(record, wanted):
        unfit = compatible.driver(version, model, known)
        if unfit is None:
            continue
        if compatible.driver(wanted.version, model, known):
            # The inventory wants one that does not support it either.
            step, cure = "Set 'nvidia_driver_version' to such a version.", Cure.PERSON
            if record.kubernetes.joined:
                step = f"Set 'nvidia_driver_version' to such a version, then {steps.change_driver(node)}."
                cure = Cure.UPGRADE
        found.append(
            Problem(
                f"Node '{node}': {unfit.found} does not support its GPUs; allowed: {unfit.allowed}.",
                step,
                {"driver": version, "gpus": model.key},
                cure,
            )
        )
    return found


def cuda(record: Record, wanted: Driver) -> list[Problem]:
    """Programs of each CUDA toolkit run with the driver and on the GPUs; nothing is said of a driver that is not there."""
    version = driver_version(record)
    return [
        problem
        for toolkit in record.cuda.versions
        for problem in [
            *(_with_driver(record, wanted.node, toolkit, version) if version else []),
            *_on_gpus(record, wanted, toolkit),
        ]
    ]


def cuda_evidence(record: Record) -> dict[str, Any]:
    """What is compared, and which toolkits bring the driver's library along."""
    found = [version for version in record.cuda.versions if forward_package(record, version)]
    return {
        "cuda": {"versions": list(record.cuda.versions), "default": record.cuda.default},
        "driver": driver_version(record),
        **({"by_forward_compatibility": found} if found else {}),
    }


def cuda_unknown(record: Record) -> str:
    """Which toolkits cannot be judged, and why; empty if all can."""
    known = compatibility.load()
    return _unknown(
        compatible.cuda_with_driver(version, versions.LATEST, known) for version in record.cuda.versions
    )


def forward_package(record: Record, version: str) -> str | None:
    """The package that lets programs of a CUDA toolkit run with an older driver, if it is there.

    https://docs.nvidia.com/deploy/cuda-compatibility/forward-compatibility.html (read 2026-11-25)
    """
    name = f"cuda-compat-{version.replace('.', '-')}"
    return name if name in record.packages else None


def _with_driver(record: Record, node: str, version: str, driver: str) -> list[Problem]:
    known = compatibility.load()
    unfit = compatible.cuda_with_driver(version, driver, known)
    if unfit is None or not unfit.known or forward_package(record, version):
        return []
    step, cure = "set 'nvidia_driver_version' to a version of such a branch", Cure.PERSON
    if record.kubernetes.joined:
        branch = known.driver_for_cuda[version.split(".", maxsplit=1)[0]]
        step, cure = f"change the driver; {steps.upgrade_driver(node, str(branch))}", Cure.UPGRADE
    return [
        Problem(
            f"Node '{node}' has {unfit.found}, which is too old for it; allowed: {unfit.allowed}.",
            f"If people build with it, {step}. {_remove(record, version)}",
            cuda_evidence(record),
            cure,
        )
    ]


def _on_gpus(record: Record, wanted: Driver, version: str) -> list[Problem]:
    known = compatibility.load()
    return [
        Problem(
            f"Node '{wanted.node}' has {unfit.found}, which makes no programs for its '{model.key}' ({model.architecture});"
            f" allowed: {unfit.allowed}.",
            f"Add such a version to 'cuda_toolkit_versions'. {_remove(record, version)}",
            {**cuda_evidence(record), "gpus": model.key},
        )
        for model in fabric.models_of(record, wanted)
        if (unfit := compatible.cuda_on_gpu(version, model, known))
    ]


def _remove(record: Record, version: str) -> str:
    """What to do about a toolkit that nobody needs: nothing tells who brought it."""
    package = f"cuda-toolkit-{version.replace('.', '-')}"
    what = f"package '{package}'" if package in record.packages else f"'{FOLDER}/cuda-{version}'"
    return f"If nobody builds with it, take '{version}' out of 'cuda_toolkit_versions', and remove {what} on the node."
