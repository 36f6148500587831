"""What passed checks of the nodes tier saw, where their judges do not say it."""

from __future__ import annotations

from typing import Any

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
    return {
        "pci": len(record.pci.gpus),
        "nvml": len(record.nvml.gpus),
        "dev": len(record.dev.gpu_minors),
        "uuids": [gpu.uuid for gpu in record.nvml.gpus],
    }


def witnesses_evidence(facts: NodeFacts) -> dict[str, Any]:
    """What the loaded library says."""
    return {"library_simulated": facts.record.library.simulated}
