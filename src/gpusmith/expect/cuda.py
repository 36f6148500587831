"""CUDA toolkits: each version that the inventory lists, and the one that /usr/local/cuda leads to."""

from __future__ import annotations

from gpusmith.expect.wanted import CudaToolkits
from gpusmith.probe.record import Record
from gpusmith.problems import Cure, Problem


def missing(record: Record, wanted: CudaToolkits) -> list[str]:
    """Versions without a compiler."""
    return [version for version in wanted.versions if version not in record.cuda.versions]


def others(record: Record, wanted: CudaToolkits) -> list[str]:
    """Versions that the inventory does not list. Nothing tells who installed them, and people may build with them."""
    return [version for version in record.cuda.versions if version not in wanted.versions]


def problems(record: Record, wanted: CudaToolkits) -> list[Problem]:
    """What role cuda_toolkit answers for."""
    node, seen = wanted.node, record.cuda
    evidence = {"cuda": {"versions": list(seen.versions), "default": seen.default}}
    found = [
        Problem(
            f"Node '{node}': CUDA toolkit {version} is not installed.",
            "Run site.yml for the node.",
            evidence,
            Cure.PACKAGES,
        )
        for version in missing(record, wanted)
    ]
    if wanted.default and seen.default != wanted.default:
        leads = f"leads to CUDA toolkit {seen.default}" if seen.default else "leads to no CUDA toolkit"
        cause = f"Node '{node}': '/usr/local/cuda' {leads}, wanted is {wanted.default}."
        found.append(Problem(cause, "Run site.yml for the node.", evidence, Cure.FILES))
    return found
