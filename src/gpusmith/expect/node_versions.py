"""Versions that a node has: whether they go together, and with its GPUs. Of what no row of the tables knows nothing is wrong."""

from __future__ import annotations

from collections.abc import Iterable

from gpusmith.data import compatibility
from gpusmith.expect import compatible, fabric, libraries, steps
from gpusmith.expect.compatible import Misfit
from gpusmith.expect.containerd import TOOLKIT
from gpusmith.expect.wanted import Driver
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


def driver(record: Record, wanted: Driver) -> list[Problem]:
    """The driver's branch supports the GPUs; nothing is said of a machine that has none."""
    node, known = wanted.node, compatibility.load()
    version = record.module.loaded_version or record.module.installed_version
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
