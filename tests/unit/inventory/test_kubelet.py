"""What the inventory may say of the kubelet's configuration."""

from __future__ import annotations

from typing import Any

import pytest
from gpulab.hosts import Host

from gpusmith.data import compatibility
from gpusmith.data import kubelet as table
from gpusmith.inventory.kubelet import TYPES, VARIABLE, settings, too_new
from gpusmith.inventory.specs import load
from gpusmith.inventory.variables import check_hosts


def told(config: Any) -> list[str]:
    return [f"{refusal.message} {refusal.hint}" for refusal in settings(VARIABLE, config)]


@pytest.mark.parametrize(
    ("config", "place", "says"),
    [
        (["maxPods"], "", "a mapping"),
        ({"maxPods": "many"}, ".maxPods", "a whole number without quotes, not 'many'"),
        # The kubelet does not start with a number in quotes either.
        ({"maxPods": "20"}, ".maxPods", "a whole number"),
        ({"maxPods": 20.5}, ".maxPods", "a whole number"),
        ({"maxPods": True}, ".maxPods", "a whole number"),
        ({"maxPods": 2**31}, ".maxPods", "a whole number"),
        ({"failSwapOn": "no"}, ".failSwapOn", "true or false"),
        ({"memoryThrottlingFactor": "0.9"}, ".memoryThrottlingFactor", "a number"),
        ({"podCIDR": 10}, ".podCIDR", "a string"),
        ({"syncFrequency": 30}, ".syncFrequency", "a duration"),
        ({"syncFrequency": "30"}, ".syncFrequency", "a duration"),
        ({"syncFrequency": "1 m"}, ".syncFrequency", "a duration"),
        ({"clusterDNS": "10.96.0.10"}, ".clusterDNS", "a list"),
        ({"clusterDNS": ["10.96.0.10", 7]}, ".clusterDNS[1]", "a string"),
        ({"systemReserved": ["cpu"]}, ".systemReserved", "a mapping"),
        ({"systemReserved": {"cpu": 1}}, ".systemReserved.cpu", "a string"),
        ({"systemReserved": {1: "1"}}, ".systemReserved", "keys are strings"),
        ({"featureGates": {"NodeSwap": "true"}}, ".featureGates.NodeSwap", "true or false"),
        ({"authentication": True}, ".authentication", "a mapping"),
        ({"authentication": {"anonymous": {"enabled": "no"}}}, ".authentication.anonymous.enabled", "true"),
        ({"authorization": {"mode": "webhook"}}, ".authorization.mode", "one of 'AlwaysAllow', 'Webhook'"),
        ({"reservedMemory": [{"numaNode": 0, "limits": {"memory": "1 GB"}}]},
         ".reservedMemory[0].limits.memory", "a quantity"),
        ({"shutdownGracePeriodByPodPriority": [{"priority": "1"}]},
         ".shutdownGracePeriodByPodPriority[0].priority", "a whole number"),
        ({"logging": {"verbosity": -1}}, ".logging.verbosity", "from 0"),
        ({"topologyManagerPolicy": "numa"}, ".topologyManagerPolicy", "'single-numa-node'"),
    ],
)  # fmt: skip
def test_wrong_types_are_named_with_what_is_allowed(config: Any, place: str, says: str) -> None:
    (line,) = told(config)
    assert line.startswith(f"'{VARIABLE}{place}' must be ")
    assert says in line


@pytest.mark.parametrize(
    ("config", "names", "nearest"),
    [
        ({"maxPodz": 20}, f"'{VARIABLE}' has 'maxPodz'", "'maxPods'"),
        ({"MaxPods": 20}, "'MaxPods'", "'maxPods'"),
        ({"authentication": {"webhooks": {}}}, f"'{VARIABLE}.authentication' has 'webhooks'", "'webhook'"),
        ({"evictionHard": {"memory.avail": "1Gi"}}, "'memory.avail'", "'memory.available'"),
        ({"somethingElse": 1}, "'somethingElse'", "kubelet-config"),
        ({3: 1}, "'3'", "kubelet-config"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(config: Any, names: str, nearest: str) -> None:
    (line,) = told(config)
    assert names in line
    assert nearest in line


def test_what_the_roles_set_is_refused() -> None:
    lines = told({"cgroupDriver": "systemd", "registerWithTaints": [], "kind": "KubeletConfiguration"})
    assert len(lines) == 3
    assert "'kubernetes_node_taints'" in lines[1]


def test_all_that_is_wrong_is_told_at_once() -> None:
    assert len(told({"maxPods": "many", "maxPodz": 20, "cgroupDriver": "cgroupfs"})) == 3


@pytest.mark.parametrize(
    "config",
    [
        None,
        {},
        {"maxPods": 250, "podPidsLimit": -1, "failSwapOn": None, "memoryThrottlingFactor": 1},
        {"syncFrequency": "1m30s", "cpuCFSQuotaPeriod": "100ms", "imageMaximumGCAge": "0"},
        {"systemReserved": {"cpu": "500m", "memory": "1Gi"}, "evictionHard": {"memory.available": "5%"}},
        {"featureGates": {"NodeSwap": True}, "memorySwap": {"swapBehavior": "LimitedSwap"}},
        {"logging": {"format": "json", "flushFrequency": 5000000000, "vmodule": [{"filePattern": "kubelet*"}]}},
        {"reservedMemory": [{"numaNode": 0, "limits": {"memory": "1100Mi", "hugepages-1Gi": 1}}]},
        {"authentication": {"webhook": {"cacheTTL": "2m"}}, "tracing": {"samplingRatePerMillion": 0}},
        {"topologyManagerPolicy": "single-numa-node", "staticPodURLHeader": {"a": ["b"]}},
        Host(cgroup_version=1).kubelet_config(),
    ],
)  # fmt: skip
def test_good_settings_pass(config: Any) -> None:
    assert told(config) == []


def test_a_field_of_a_later_kubernetes_is_refused() -> None:
    config = {"memoryReservationPolicy": "None", "maxPods": 20}
    (refusal,) = too_new(config, "1.35.2")
    assert "'memoryReservationPolicy'" in refusal.message
    assert "1.36" in refusal.message
    assert too_new(config, "1.36.0") == []
    assert too_new(config, None) == too_new(None, "1.35.2") == []
    hosts = {name: {VARIABLE: config, "kubernetes_node_version": "1.34.1"} for name in "ab"}
    (shared,) = check_hosts(hosts, load())
    assert shared.message.startswith("Hosts 'a', 'b': '")


def test_the_table_speaks_of_itself_and_of_every_kubernetes_that_is_supported() -> None:
    rows = table.load()
    kinds = {*rows.fields.values(), *(kind for fields in rows.objects.values() for kind in fields.values())}
    bare = {kind.split(" of ")[-1] for kind in kinds}
    assert bare <= {*TYPES, *rows.objects}
    assert set(rows.since) <= set(rows.fields)
    assert {place.split(".")[0] for place in rows.choices} <= set(rows.fields)
    assert set(rows.ours) <= {*rows.fields, "apiVersion", "kind"}
    assert list(rows.kubernetes) == list(compatibility.load().containerd)
