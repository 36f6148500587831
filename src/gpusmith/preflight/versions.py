"""Versions against each other, and against the GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpusmith.errors import Refusal
from gpusmith.preflight.words import (
    FULL_DRIVER_VERSION,
    Data,
    Facts,
    Wanted,
    branch,
    nearest,
    numbers,
    offered_by,
    quoted,
    refusal,
)


def check_driver(facts: Facts, wanted: Wanted, data: Data) -> Iterator[Refusal]:
    """A full version, and a branch and module that support the GPU."""
    version = str(wanted.get("driver_version") or "")
    if not FULL_DRIVER_VERSION.match(version):
        offered = offered_by(facts, "nvidia_driver")
        alike = [name for name in offered if str(branch(name)) == version] or offered
        step = (
            f"The repository has {quoted(nearest(alike, version))}."
            if alike
            else "Name a full version, for example '580.95.05'."
        )
        yield refusal(
            "driver version", f"'{version}', which is a branch or no version", "a full version", step
        )
        return
    model = data["gpus"]["models"].get(wanted.get("gpu_model")) or {}
    rows = data["compatibility"]["architectures"]["rows"]
    row: dict[str, Any] = next((row for row in rows if row["architecture"] == model.get("architecture")), {})
    first, last = int(model.get("min_driver_branch", 0)), int(row.get("last_branch", 10**6))
    if not first <= branch(version) <= last:
        allowed = f"branch {first} or newer" if branch(version) < first else f"branch {last} or older"
        yield refusal(
            "driver for this GPU",
            f"driver '{version}'",
            f"{allowed} for '{wanted.get('gpu_model')}' ({model.get('architecture')})",
            "Correct 'nvidia_driver_version'.",
        )
    flavour, ability = wanted.get("module_flavour"), model.get("open_module")
    if (flavour == "proprietary" and ability == "required") or (
        flavour == "open" and ability == "unsupported"
    ):
        right = "open" if ability == "required" else "proprietary"
        yield refusal(
            "module flavour",
            f"'{flavour}'",
            f"'{right}' for '{wanted.get('gpu_model')}'",
            "Set 'nvidia_driver_module_flavour: auto'.",
        )


def check_cuda(_facts: Facts, wanted: Wanted, data: Data) -> Iterator[Refusal]:
    """CUDA versions that driver and GPU support."""
    driver = str(wanted.get("driver_version") or "")
    rows = {row["cuda"]: row for row in data["compatibility"]["cuda_driver"]["rows"]}
    model = data["gpus"]["models"].get(wanted.get("gpu_model")) or {}
    known = data["compatibility"]["architectures"]["rows"]
    limits: dict[str, Any] = next(
        (row for row in known if row["architecture"] == model.get("architecture")), {}
    )
    for version in wanted.get("cuda_versions") or []:
        row = rows.get(str(version).split(".")[0])
        if row is None:
            yield refusal(
                "CUDA version",
                f"'{version}'",
                quoted(f"{cuda}.x" for cuda in rows),
                "Correct 'cuda_toolkit_versions'.",
            )
        elif branch(driver) < row["minimum_branch"]:
            yield refusal(
                "CUDA and driver",
                f"CUDA '{version}' with driver '{driver}'",
                f"driver branch {row['minimum_branch']} or newer",
                "Choose a newer 'nvidia_driver_version' or an older CUDA.",
            )
        if "last_cuda" in limits and numbers(version)[0] > int(limits["last_cuda"]):
            yield refusal(
                "CUDA for this GPU",
                f"CUDA '{version}'",
                f"{limits['last_cuda']}.x or older",
                "Correct 'cuda_toolkit_versions'.",
            )
        if "first_cuda" in limits and numbers(version) < numbers(limits["first_cuda"]):
            yield refusal(
                "CUDA for this GPU",
                f"CUDA '{version}'",
                f"{limits['first_cuda']} or newer",
                "Correct 'cuda_toolkit_versions'.",
            )


def check_containerd(_facts: Facts, wanted: Wanted, data: Data) -> Iterator[Refusal]:
    """A containerd that the Kubernetes version supports."""
    kubernetes, version = (
        str(wanted.get("kubernetes_version") or ""),
        str(wanted.get("containerd_version") or ""),
    )
    rows = {
        row["kubernetes"]: row["containerd"] for row in data["compatibility"]["kubernetes_containerd"]["rows"]
    }
    minor = ".".join(kubernetes.split(".")[:2])
    if minor not in rows:
        yield refusal(
            "Kubernetes version",
            f"'{kubernetes}'",
            quoted(f"{row}.x" for row in rows),
            "Correct 'kubernetes_node_version'.",
        )
        return
    first = next((good for good in rows[minor] if numbers(good)[:2] == numbers(version)[:2]), None)
    least = data["compatibility"]["containerd_minimum"]["version"]
    if first is None or numbers(version) < max(numbers(first), numbers(least)):
        good = [release for release in rows[minor] if numbers(release) >= numbers(least)]
        yield refusal(
            "containerd and Kubernetes",
            f"containerd '{version}' with Kubernetes '{kubernetes}'",
            quoted(f"{release} and later patches" for release in good),
            "Correct 'containerd_version'.",
        )
