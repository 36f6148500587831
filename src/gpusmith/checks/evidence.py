"""What passed checks of the nodes tier saw, where their judges do not say it."""

from __future__ import annotations

from typing import Any

from gpusmith.expect import gpus, holders, kernels
from gpusmith.expect.choice import driver_of
from gpusmith.node.facts import NodeFacts


def versions_evidence(facts: NodeFacts) -> dict[str, Any]:
    """Versions by source."""
    record = facts.record
    return {
        "loaded": record.module.loaded_version,
        "nvml": record.library.nvml_version,
        "cuda": record.library.cuda_version,
        "flavour": record.module.flavour,
    }


def count_evidence(facts: NodeFacts) -> dict[str, Any]:
    """Numbers by source, and which GPUs."""
    record = facts.record
    notes = gpus.left_out(record)
    return {
        **({"notes": notes} if notes else {}),
        "pci": len(record.pci.gpus),
        "nvml": len(record.nvml.gpus),
        "dev": len(record.dev.gpu_minors),
        "uuids": [gpu.uuid for gpu in record.nvml.gpus],
    }


def kernel_evidence(facts: NodeFacts) -> dict[str, Any]:
    """Old kernels that nothing can be built for, and modules that are blacklisted: a pass does not hide them."""
    left = kernels.left_behind(facts.record, driver_of(facts.host, facts.model, facts.record))
    notes = [kernels.without_driver(kernel.release) for kernel in left] + kernels.by_name_only(facts.record)
    return {"notes": notes} if notes else {}


def witnesses_evidence(facts: NodeFacts) -> dict[str, Any]:
    """What the loaded library says."""
    return {"library_simulated": facts.record.library.simulated}


def desktops_evidence(facts: NodeFacts) -> dict[str, Any]:
    """Desktops on GPUs: a workstation may be meant to have one."""
    notes = holders.screens(facts.record)
    return {"notes": notes} if notes else {}
