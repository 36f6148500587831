"""What fields of KubeletConfiguration ask of one another: the kubelet does not start where they contradict each other.

Facts: pkg/kubelet/apis/config/validation, pkg/kubelet/cm/cpumanager and pkg/kubelet/cm/memorymanager of Kubernetes 1.36.3.
What the cluster gives its kubelets is not known here, so a field that another one needs belongs beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from gpusmith.errors import Refusal

HERE = "The cluster's own settings are not known here: what it has of them, say here as well."
CORRECT = "Correct it in the inventory."
SUFFIXES = {
    **{unit: Decimal(1024) ** (place + 1) for place, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))},
    **{unit: Decimal(1000) ** (place + 1) for place, unit in enumerate(("k", "M", "G", "T", "P", "E"))},
    "": Decimal(1),
    "m": Decimal("1e-3"),
    "u": Decimal("1e-6"),
    "n": Decimal("1e-9"),
}
UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
CPUS = re.compile(r"[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*")
RANGES: Mapping[str, tuple[float, float]] = {
    "imageGCHighThresholdPercent": (0, 100),
    "imageGCLowThresholdPercent": (0, 100),
    "maxPods": (0, 2**31 - 1),
    "podsPerCore": (0, 2**31 - 1),
    "port": (1, 65535),
    "readOnlyPort": (0, 65535),
    "healthzPort": (0, 65535),
    "oomScoreAdj": (-1000, 1000),
    "maxParallelImagePulls": (1, 2**31 - 1),
    "containerLogMaxFiles": (2, 2**31 - 1),
    "containerLogMaxWorkers": (1, 2**31 - 1),
    "nodeLeaseDurationSeconds": (1, 2**31 - 1),
}
"""Lowest and highest number of a field."""
ENFORCED = {
    "system-reserved": "systemReservedCgroup",
    "system-reserved-compressible": "systemReservedCgroup",
    "kube-reserved": "kubeReservedCgroup",
    "kube-reserved-compressible": "kubeReservedCgroup",
}
"""What 'enforceNodeAllocatable' needs, by its entries."""


def seconds(duration: str) -> float:
    """Of a duration as Go writes it."""
    sign = -1.0 if duration.startswith("-") else 1.0
    return sign * sum(
        float(number) * UNITS[unit] for number, unit in re.findall(r"([0-9.]+)(ns|us|µs|ms|s|m|h)", duration)
    )


def amount(quantity: Any) -> Decimal:
    """Of a quantity as Kubernetes writes it."""
    text = str(quantity)
    number, suffix = re.fullmatch(r"([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)([A-Za-z]*)", text).groups()  # type: ignore[union-attr]
    return Decimal(number) * SUFFIXES[suffix]


def together(name: str, value: Mapping[str, Any]) -> Iterator[Refusal]:
    """What is wrong with fields that are right each by itself.

    Args:
        name: the variable.
        value: its fields, of their types.
    """
    given = {key: entry for key, entry in value.items() if entry is not None}
    for rule in (_ranges, _cpus, _memory, _shutdown, _images, _enforced):
        for what, hint in rule(given):
            yield Refusal(f"'{name}' {what}; the kubelet would not start.", hint)


Found = Iterator[tuple[str, str]]


def _ranges(given: Mapping[str, Any]) -> Found:
    for field, (low, high) in RANGES.items():
        if field in given and not low <= given[field] <= high:
            most = f"from {low:.0f} to {high:.0f}" if high < 2**31 - 1 else f"{low:.0f} or more"
            yield f"has {given[field]} for '{field}', which has to be {most}", CORRECT


def _cpus(given: Mapping[str, Any]) -> Found:
    reserved = str(given.get("reservedSystemCPUs") or "")
    if reserved and not CPUS.fullmatch(reserved):
        yield f"has '{reserved}' for 'reservedSystemCPUs', which has to be a list as \"0-1,8\"", CORRECT
    groups = [field for field in ("systemReservedCgroup", "kubeReservedCgroup") if given.get(field)]
    if reserved and groups:
        yield (
            f"has 'reservedSystemCPUs' beside '{groups[0]}', which exclude each other",
            "Take one of them out of it.",
        )
    if given.get("cpuManagerPolicy") == "static" and not reserved and not _reserved(given, "cpu"):
        yield (
            "has 'static' for 'cpuManagerPolicy' and keeps no CPU for the system",
            f"Add 'systemReserved' or 'kubeReserved' with 'cpu', or 'reservedSystemCPUs'. {HERE}",
        )


def _reserved(given: Mapping[str, Any], resource: str) -> Decimal:
    """What is kept for the system and for Kubernetes."""
    kept = [given.get(field) or {} for field in ("systemReserved", "kubeReserved")]
    return sum((amount(each[resource]) for each in kept if each.get(resource)), Decimal(0))


def _memory(given: Mapping[str, Any]) -> Found:
    rows = given.get("reservedMemory") or []
    if given.get("memoryManagerPolicy") == "Static" and not rows:
        yield (
            "has 'Static' for 'memoryManagerPolicy' and no 'reservedMemory'",
            f"Add it: by NUMA node, in all what 'systemReserved', 'kubeReserved' and 'evictionHard' keep. {HERE}",
        )
    seen = set()
    for row in rows:
        for resource, quantity in (row.get("limits") or {}).items():
            where = (row.get("numaNode", 0), resource)
            if resource != "memory" and not resource.startswith("hugepages-"):
                yield f"reserves '{resource}' in 'reservedMemory', which knows memory and huge pages", CORRECT
            elif amount(quantity) == 0 or where in seen:
                wrong = "nothing" if amount(quantity) == 0 else "twice"
                yield f"reserves '{resource}' of NUMA node {where[0]} {wrong} in 'reservedMemory'", CORRECT
            seen.add(where)
    evicted = str((given.get("evictionHard") or {}).get("memory.available", ""))
    if rows and evicted and not evicted.endswith("%"):
        kept = _reserved(given, "memory") + amount(evicted)
        listed = sum((amount((row.get("limits") or {}).get("memory", 0)) for row in rows), Decimal(0))
        if kept != listed:
            others = "'systemReserved', 'kubeReserved' and 'evictionHard' together"
            yield (
                f"reserves {listed:.0f} bytes of memory in 'reservedMemory' and {kept:.0f} in {others}, which have to be equal",
                f"Make them equal. {HERE}",
            )


def _shutdown(given: Mapping[str, Any]) -> Found:
    whole, critical = (
        seconds(given.get(field, "0s"))
        for field in ("shutdownGracePeriod", "shutdownGracePeriodCriticalPods")
    )
    if critical > whole:
        yield (
            f"gives critical pods {critical:g} s of {whole:g} s ('shutdownGracePeriodCriticalPods', 'shutdownGracePeriod')",
            f"The second one is the whole time, and has to be at least as long. {HERE}",
        )
    for field, period in (("shutdownGracePeriod", whole), ("shutdownGracePeriodCriticalPods", critical)):
        if period < 0 or 0 < period < 1:
            yield f"has '{given[field]}' for '{field}', which has to be 0 or at least 1s", CORRECT
    if given.get("shutdownGracePeriodByPodPriority") and (whole or critical):
        yield (
            "has 'shutdownGracePeriodByPodPriority' beside 'shutdownGracePeriod', which exclude each other",
            "Take one of them out of it.",
        )


def _images(given: Mapping[str, Any]) -> Found:
    # 85 and 80 are the kubelet's own.
    high, low = given.get("imageGCHighThresholdPercent", 85), given.get("imageGCLowThresholdPercent", 80)
    if low >= high:
        yield (
            f"deletes images from {high} % down to {low} % ('imageGCHighThresholdPercent', 'imageGCLowThresholdPercent')",
            f"The second one has to be lower. {HERE}",
        )
    if given.get("serializeImagePulls") and given.get("maxParallelImagePulls", 1) > 1:
        yield "has 'maxParallelImagePulls' beside 'serializeImagePulls: true'", "Make the latter false."


def _enforced(given: Mapping[str, Any]) -> Found:
    for entry in given.get("enforceNodeAllocatable") or []:
        field = ENFORCED.get(entry, "")
        if field and not given.get(field):
            yield f"has '{entry}' in 'enforceNodeAllocatable' and no '{field}'", f"Add it. {HERE}"
