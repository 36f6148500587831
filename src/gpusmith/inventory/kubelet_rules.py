"""What fields of KubeletConfiguration ask of one another: the kubelet does not start where they contradict each other.

Facts: pkg/kubelet/apis/config/validation, pkg/kubelet/cm/cpumanager and pkg/kubelet/cm/memorymanager of Kubernetes 1.36.3.
The cluster has settings of its own, which are not known here: a field that is not given proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from gpusmith.errors import Refusal

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
QUANTITY = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]+)?")
SHARE = re.compile(r"[0-9]+(\.[0-9]+)?%")
CPUS = re.compile(r"[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*")
RANGES: Mapping[str, tuple[float, float]] = {
    "imageGCHighThresholdPercent": (0, 100),
    "imageGCLowThresholdPercent": (0, 100),
    "maxPods": (0, 2**31 - 1),
    "podsPerCore": (0, 2**31 - 1),
    "port": (0, 65535),
    "readOnlyPort": (0, 65535),
    "healthzPort": (0, 65535),
    "oomScoreAdj": (-1000, 1000),
    "maxParallelImagePulls": (1, 2**31 - 1),
    "containerLogMaxFiles": (2, 2**31 - 1),
    "containerLogMaxWorkers": (1, 2**31 - 1),
    "nodeLeaseDurationSeconds": (0, 2**31 - 1),
}
"""Lowest and highest number of a field."""
KEPT = ("systemReserved", "kubeReserved")
EVICTED = ("evictionHard", "evictionSoft", "evictionMinimumReclaim")


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
    # What counts with quantities needs some.
    first = [found for rule in (_ranges, _quantities) for found in rule(given)]
    for what, hint in first or [
        found for rule in (_cpus, _memory, _shutdown, _images) for found in rule(given)
    ]:
        yield Refusal(f"'{name}' {what}; the kubelet would not start.", hint)


Found = Iterator[tuple[str, str]]


def _ranges(given: Mapping[str, Any]) -> Found:
    for field, (low, high) in RANGES.items():
        if field in given and not low <= given[field] <= high:
            most = f"from {low:.0f} to {high:.0f}" if high < 2**31 - 1 else f"{low:.0f} or more"
            yield f"has {given[field]} for '{field}', which has to be {most}", CORRECT


def _quantities(given: Mapping[str, Any]) -> Found:
    for field in (*KEPT, *EVICTED):
        for key, quantity in (given.get(field) or {}).items():
            share = field in EVICTED and SHARE.fullmatch(quantity)
            if not share and not QUANTITY.fullmatch(quantity):
                yield (
                    f"has '{quantity}' for '{key}' of '{field}', which is no quantity",
                    'Write it as "500m" or "1Gi".',
                )


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
    kept = [(given.get(field) or {}).get("cpu") for field in KEPT]
    nothing = all(each is not None and amount(each) == 0 for each in kept)
    if given.get("cpuManagerPolicy") == "static" and nothing and not reserved:
        yield (
            "has 'static' for 'cpuManagerPolicy' and keeps no CPU for the system",
            "Give 'systemReserved' or 'kubeReserved' more than 0 of 'cpu'.",
        )


def _memory(given: Mapping[str, Any]) -> Found:
    rows, seen = given.get("reservedMemory") or [], set()
    for row in rows:
        for resource, quantity in (row.get("limits") or {}).items():
            where = (row.get("numaNode", 0), resource)
            if resource != "memory" and not resource.startswith("hugepages-"):
                yield f"reserves '{resource}' in 'reservedMemory', which knows memory and huge pages", CORRECT
            elif amount(quantity) == 0 or where in seen:
                wrong = "nothing" if amount(quantity) == 0 else "twice"
                yield f"reserves '{resource}' of NUMA node {where[0]} {wrong} in 'reservedMemory'", CORRECT
            seen.add(where)
    kept = [
        (given.get(field) or {}).get(key)
        for field, key in (*((field, "memory") for field in KEPT), ("evictionHard", "memory.available"))
    ]
    # Of a share nobody knows here how much it is.
    if not rows or any(each is None or each.endswith("%") for each in kept):
        return
    needed = sum(map(amount, kept), Decimal(0))
    listed = sum((amount((row.get("limits") or {}).get("memory", 0)) for row in rows), Decimal(0))
    if needed != listed:
        others = "'systemReserved', 'kubeReserved' and 'evictionHard' together"
        yield (
            f"reserves {listed:.0f} bytes of memory in 'reservedMemory' and {needed:.0f} in {others}, which have to be equal",
            "Make them equal.",
        )


def _shutdown(given: Mapping[str, Any]) -> Found:
    fields = ("shutdownGracePeriod", "shutdownGracePeriodCriticalPods")
    periods = {field: seconds(given[field]) for field in fields if field in given}
    whole, critical = (periods.get(field) for field in fields)
    if whole is not None and critical is not None and critical > whole:
        yield (
            f"gives critical pods {critical:g} s of {whole:g} s ('shutdownGracePeriodCriticalPods', 'shutdownGracePeriod')",
            "The second one is the whole time, and has to be at least as long.",
        )
    for field, period in periods.items():
        if period < 0 or 0 < period < 1:
            yield f"has '{given[field]}' for '{field}', which has to be 0 or at least 1s", CORRECT
    if given.get("shutdownGracePeriodByPodPriority") and any(periods.values()):
        yield (
            "has 'shutdownGracePeriodByPodPriority' beside 'shutdownGracePeriod', which exclude each other",
            "Take one of them out of it.",
        )


def _images(given: Mapping[str, Any]) -> Found:
    high, low = given.get("imageGCHighThresholdPercent"), given.get("imageGCLowThresholdPercent")
    if high is not None and low is not None and low >= high:
        yield (
            f"deletes images from {high} % down to {low} % ('imageGCHighThresholdPercent', 'imageGCLowThresholdPercent')",
            "The second one has to be lower.",
        )
    if given.get("serializeImagePulls") and given.get("maxParallelImagePulls", 1) > 1:
        yield "has 'maxParallelImagePulls' beside 'serializeImagePulls: true'", "Make the latter false."
