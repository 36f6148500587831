"""What fields of the kubelet's configuration ask of one another."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from gpusmith.data import kubelet as table
from gpusmith.inventory.kubelet import VARIABLE, settings
from gpusmith.inventory.kubelet_rules import RANGES, amount, seconds


def told(config: Any) -> list[str]:
    return [f"{refusal.message} {refusal.hint}" for refusal in settings(VARIABLE, config)]


MEMORY = [{"numaNode": 0, "limits": {"memory": "1Gi"}}, {"numaNode": 1, "limits": {"memory": "124Mi"}}]
EQUAL = {
    "systemReserved": {"memory": "1Gi"},
    "kubeReserved": {"memory": "0"},
    "evictionHard": {"memory.available": "124Mi"},
}
NONE = {"systemReserved": {"cpu": "0"}, "kubeReserved": {"cpu": "0m"}}


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"maxPods": -1}, "-1 for 'maxPods', which has to be 0 or more"),
        ({"imageGCHighThresholdPercent": 101}, "from 0 to 100"),
        ({"port": 65536}, "from 0 to 65535"),
        ({"systemReserved": {"cpu": "10%"}, "cpuManagerPolicy": "static"}, "'10%' for 'cpu' of 'systemReserved'"),
        ({"kubeReserved": {"cpu": "1core"}}, "which is no quantity"),
        ({"evictionHard": {"memory.available": "100MB"}, "reservedMemory": MEMORY}, "'100MB' for 'memory.available'"),
        ({"cpuManagerPolicy": "static", **NONE}, "keeps no CPU for the system"),
        ({"reservedSystemCPUs": "0-"}, "has to be a list"),
        ({"reservedSystemCPUs": "0-1", "kubeReservedCgroup": "/kube"}, "exclude each other"),
        ({"reservedMemory": [{"numaNode": 0, "limits": {"cpu": 1}}]}, "knows memory and huge pages"),
        ({"reservedMemory": [{"numaNode": 0, "limits": {"hugepages-1Gi": 0}}]}, "NUMA node 0 nothing"),
        ({"reservedMemory": [MEMORY[0], MEMORY[0]]}, "NUMA node 0 twice"),
        ({"reservedMemory": MEMORY, **EQUAL, "kubeReserved": {"memory": "1Mi"}}, "have to be equal"),
        ({"shutdownGracePeriod": "30s", "shutdownGracePeriodCriticalPods": "1m"}, "60 s of 30 s"),
        ({"shutdownGracePeriod": "500ms"}, "0 or at least 1s"),
        ({"shutdownGracePeriod": "30s", "shutdownGracePeriodByPodPriority": [{"priority": 0}]}, "exclude"),
        ({"imageGCHighThresholdPercent": 80, "imageGCLowThresholdPercent": 80}, "from 80 % down to 80 %"),
        ({"serializeImagePulls": True, "maxParallelImagePulls": 4}, "'serializeImagePulls: true'"),
    ],
)  # fmt: skip
def test_what_the_kubelet_would_not_start_with_is_refused(config: Any, says: str) -> None:
    (line,) = told(config)
    assert line.startswith(f"'{VARIABLE}' ")
    assert says in line
    assert "the kubelet would not start" in line


@pytest.mark.parametrize(
    "config",
    [
        {"cpuManagerPolicy": "none", **NONE},
        {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0-1,64,65", **NONE},
        {"cpuManagerPolicy": "static", "kubeReserved": {"cpu": "500m"}, "topologyManagerPolicy": "restricted"},
        # The cluster may have what is not given here.
        {"cpuManagerPolicy": "static", "systemReserved": {"cpu": "0", "pid": "1000"}},
        {"memoryManagerPolicy": "Static"},
        {"shutdownGracePeriodCriticalPods": "10s"},
        {"imageGCHighThresholdPercent": 60},
        {"enforceNodeAllocatable": ["pods", "kube-reserved"]},
        {"reservedMemory": MEMORY, "evictionHard": {"memory.available": "100Mi"}},
        {"memoryManagerPolicy": "Static", "reservedMemory": MEMORY, **EQUAL},
        # A share of the node's memory, which is not known here.
        {"reservedMemory": MEMORY, **EQUAL, "evictionHard": {"memory.available": "5%"}},
        {"shutdownGracePeriod": "2m", "shutdownGracePeriodCriticalPods": "30s"},
        {"shutdownGracePeriodByPodPriority": [{"priority": 0, "shutdownGracePeriodSeconds": 60}]},
        {"maxParallelImagePulls": 4, "nodeLeaseDurationSeconds": 0},
        {"serializeImagePulls": None, "maxPods": None, "systemReserved": None},
    ],
)  # fmt: skip
def test_what_may_be_right_passes(config: Any) -> None:
    assert told(config) == []


def test_a_wrong_type_is_told_alone() -> None:
    (line,) = told({"maxPods": "many", "cpuManagerPolicy": "static"})
    assert "a whole number" in line


def test_ranges_are_of_known_fields() -> None:
    assert set(RANGES) <= set(table.load().fields)


def test_durations_and_quantities() -> None:
    assert [seconds(text) for text in ("1h2m3s", "1.5s", "100ms", "-2s", "0")] == [
        3723.0,
        1.5,
        0.1,
        -2.0,
        0.0,
    ]
    assert [amount(text) for text in ("1Gi", "500m", 2, "1e3", "1k", "0")] == [
        Decimal(1024**3), Decimal("0.5"), Decimal(2), Decimal(1000), Decimal(1000), Decimal(0),
    ]  # fmt: skip
