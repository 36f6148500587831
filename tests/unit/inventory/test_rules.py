"""What values of the inventory may be, for playbooks and suite alike."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.errors import Refusal
from gpusmith.inventory.rules import CONNECTION, RULES
from gpusmith.inventory.specs import load
from gpusmith.inventory.templates import has_open

TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def find(values: dict[str, Any]) -> list[Refusal]:
    return [
        refusal for name, value in values.items() if name in RULES for refusal in RULES[name](name, value)
    ]


def taint(**changes: Any) -> list[dict[str, Any]]:
    return [{**TAINT, **changes}]


@pytest.mark.parametrize(
    ("name", "value", "place", "wants"),
    [
        ("ansible_host", {"a": 1}, "ansible_host", "a string"),
        ("ansible_user", ["root"], "ansible_user", "a string"),
        ("ansible_user", 1000, "ansible_user", "a string"),
        ("ansible_become_user", True, "ansible_become_user", "a string"),
        ("ansible_port", [22], "ansible_port", "a port"),
        ("ansible_port", "ssh", "ansible_port", "a port"),
        ("ansible_port", True, "ansible_port", "a port"),
        ("ansible_port", 65536, "ansible_port", "a port"),
        ("ansible_port", 0, "ansible_port", "a port"),
        ("ansible_become", ["yes"], "ansible_become", "true or false"),
        ("gpusmith_gpu_count", 0, "gpusmith_gpu_count", "a whole number from 1"),
        ("gpusmith_gpu_model", "NVIDIA RTX A6000", "gpusmith_gpu_model", "63 letters"),
        ("gpusmith_gpus_ignored", ["0000:18:00.0", "1fb0"], "gpusmith_gpus_ignored[1]", "'10de:1fb0'"),
        # What YAML makes of an address without quotes.
        ("gpusmith_gpus_ignored", [1080.0], "gpusmith_gpus_ignored[0]", "in quotes"),
        ("nvidia_driver_nvml_timeout_s", 0, "nvidia_driver_nvml_timeout_s", "a whole number from 1"),
        ("validation_timeout_pod_s", "-1", "validation_timeout_pod_s", "a whole number from 1"),
        ("gpu_operands_namespace", "gpu_operands", "gpu_operands_namespace", "63 small letters"),
        ("gpu_operands_namespace", "", "gpu_operands_namespace", "63 small letters"),
        ("gpu_operands_runtime_class", "NVIDIA", "gpu_operands_runtime_class", "63 small letters"),
        (
            "gpu_monitoring_alertmanager_config",
            {"receivers": [{"name": "us"}]},
            "gpu_monitoring_alertmanager_config",
            "a 'route' with a 'receiver'",
        ),
        (
            "gpu_monitoring_alertmanager_config",
            {"route": {"receiver": "us"}},
            "gpu_monitoring_alertmanager_config",
            "a mapping with 'receivers' and",
        ),
        (
            "gpu_monitoring_alertmanager_config",
            {"route": {"receiver": "us"}, "receivers": [{"name": "US"}]},
            "gpu_monitoring_alertmanager_config",
            "whose 'receivers' have 'us', which a route names",
        ),
        (
            "gpu_monitoring_alertmanager_config",
            {
                "route": {"receiver": "us", "routes": [{"match": {}}, {"receiver": "night"}]},
                "receivers": [{"name": "us"}],
            },
            "gpu_monitoring_alertmanager_config",
            "whose 'receivers' have 'night', which a route names",
        ),
        ("gpu_monitoring_interval_s", 300, "gpu_monitoring_interval_s", "a whole number from 5 to 120"),
        ("gpu_monitoring_interval_s", 0, "gpu_monitoring_interval_s", "a whole number from 5 to 120"),
        ("gpu_monitoring_report_days", 36500, "gpu_monitoring_report_days", "a whole number from 1 to 366"),
        ("gpu_monitoring_retention", "15 days", "gpu_monitoring_retention", "a duration such as '15d'"),
        ("gpu_monitoring_retention", "30", "gpu_monitoring_retention", "a duration such as '15d'"),
        (
            "gpu_monitoring_storage",
            {"size": "ten"},
            "gpu_monitoring_storage.size",
            "an amount such as '50Gi'",
        ),
        ("gpu_monitoring_storage", {"class": "fast"}, "gpu_monitoring_storage", "a mapping with 'size'"),
        ("gpu_monitoring_retention", "", "gpu_monitoring_retention", "a duration such as '15d'"),
        ("gpu_monitoring_namespace", "GPU", "gpu_monitoring_namespace", "63 small letters"),
        ("gpu_pipeline_image", "", "gpu_pipeline_image", "the name of an image"),
        ("gpu_pipeline_image", "a b", "gpu_pipeline_image", "the name of an image"),
        ("gpu_pipeline_node_port", 80, "gpu_pipeline_node_port", "a port from 30000"),
        ("gpu_pipeline_node_port", 32768, "gpu_pipeline_node_port", "a port from 30000"),
        ("gpu_reclaim_idle_min", 0, "gpu_reclaim_idle_min", "a whole number from 1"),
        ("gpu_reclaim_grace_min", -1, "gpu_reclaim_grace_min", "a whole number from 0"),
        ("gpu_reclaim_max_pods", 0, "gpu_reclaim_max_pods", "a whole number from 1"),
        ("gpu_upgrade_canary", -1, "gpu_upgrade_canary", "a whole number from 0"),
        ("gpu_upgrade_soak_s", "-5", "gpu_upgrade_soak_s", "a whole number from 0"),
        ("gpu_upgrade_drain_timeout_s", -1, "gpu_upgrade_drain_timeout_s", "a whole number from 0"),
        ("gpu_upgrade_requires_hours", -1, "gpu_upgrade_requires_hours", "a whole number from 0"),
        ("gpu_upgrade_max_failures", 0, "gpu_upgrade_max_failures", "a whole number from 1"),
        ("validation_workloads", [{"name": "Burn_in"}], "validation_workloads[0].name", "40 small letters"),
        (
            "validation_workloads",
            [{"name": "b"}] * 2,
            "validation_workloads[1].name",
            "no other workload has",
        ),
        (
            "validation_workloads",
            [{"name": "b", "gpus": "-1"}],
            "validation_workloads[0].gpus",
            "'all' or a whole",
        ),
        ("validation_timeout_s", 0, "validation_timeout_s", "from 1"),
        ("gpusmith_reboot_timeout_s", 0, "gpusmith_reboot_timeout_s", "from 1"),
        ("gpu_upgrade_evict", {"app": 1}, "gpu_upgrade_evict.app", "quote it"),
        ("gpu_upgrade_evict", {"app in": "a"}, "gpu_upgrade_evict", "a mapping whose keys"),
        ("gpu_upgrade_stop_units", ["a b.service"], "gpu_upgrade_stop_units[0]", "a systemd unit"),
        ("gpu_upgrade_stop_units", ["x", "kubelet"], "gpu_upgrade_stop_units[1]", "use the GPUs"),
        ("gpu_upgrade_stop_units", ["containerd.service"], "gpu_upgrade_stop_units[0]", "use the GPUs"),
        ("gpusmith_kubeconfig", ["/a"], "gpusmith_kubeconfig", "the path of a file"),
        ("gpusmith_kubeconfig", "~nobody-at-all/config", "gpusmith_kubeconfig", "the path of a file"),
        ("validation_kubeconfig", "/", "validation_kubeconfig", "the path of a file"),
        ("host_baseline_sysctl", ["a"], "host_baseline_sysctl", "a mapping"),
        (
            "host_baseline_sysctl",
            {"vm/nr_hugepages": 8},
            "host_baseline_sysctl",
            "'host_baseline_huge_pages' sets",
        ),
        (
            "host_baseline_sysctl",
            {"vm.nr_hugepages": 8},
            "host_baseline_sysctl",
            "'host_baseline_huge_pages' sets",
        ),
        ("host_baseline_sysctl", {"a": ["1"]}, "host_baseline_sysctl.a", "a string of one line or a number"),
        ("host_baseline_sysctl", {"a": True}, "host_baseline_sysctl.a", "a string of one line or a number"),
        ("host_baseline_sysctl", {"a": "1\nb = 2"}, "host_baseline_sysctl.a", "a string of one line"),
        ("host_baseline_sysctl", {"a b": "1"}, "host_baseline_sysctl", "names of kernel parameters"),
        ("host_baseline_sysctl_minimum", ["a"], "host_baseline_sysctl_minimum", "a mapping"),
        ("host_baseline_sysctl_minimum", {"a": "1 2"}, "host_baseline_sysctl_minimum.a", "a whole number"),
        ("host_baseline_sysctl_minimum", {"a": -1}, "host_baseline_sysctl_minimum.a", "a whole number"),
        ("host_baseline_sysctl_minimum", {"a.*.b": 1}, "host_baseline_sysctl_minimum", "no patterns"),
        ("host_baseline_huge_pages", [1024], "host_baseline_huge_pages", "a mapping of sizes"),
        ("host_baseline_huge_pages", {"2M": 1024}, "host_baseline_huge_pages", "64Ki, 2Mi"),
        ("host_baseline_huge_pages", {2: 1024}, "host_baseline_huge_pages", "64Ki, 2Mi"),
        ("host_baseline_huge_pages", {"2Mi": -1}, "host_baseline_huge_pages.2Mi", "a whole number"),
        ("host_baseline_huge_pages", {"1Gi": "many"}, "host_baseline_huge_pages.1Gi", "a whole number"),
        ("kubernetes_node_labels", ["a"], "kubernetes_node_labels", "a mapping"),
        ("kubernetes_node_labels", None, "kubernetes_node_labels", "a mapping"),
        ("kubernetes_node_labels", {"a": 1}, "kubernetes_node_labels.a", "quote it"),
        ("kubernetes_node_labels", {"a": None}, "kubernetes_node_labels.a", "quote it"),
        ("kubernetes_node_labels", {"a": "b c"}, "kubernetes_node_labels.a", "63 letters"),
        ("kubernetes_node_labels", {"a": "b\n"}, "kubernetes_node_labels.a", "63 letters"),
        ("kubernetes_node_labels", {"a": "-b"}, "kubernetes_node_labels.a", "63 letters"),
        ("kubernetes_node_labels", {"a": "b" * 64}, "kubernetes_node_labels.a", "63 letters"),
        ("kubernetes_node_labels", {"a b": "c"}, "kubernetes_node_labels", "keys"),
        ("kubernetes_node_labels", {"": "c"}, "kubernetes_node_labels", "keys"),
        ("kubernetes_node_labels", {"a" * 64: "c"}, "kubernetes_node_labels", "keys"),
        ("kubernetes_node_labels", {"Example.com/a": "c"}, "kubernetes_node_labels", "keys"),
        ("kubernetes_node_labels", {"a/b/c": "c"}, "kubernetes_node_labels", "keys"),
        ("kubernetes_node_labels", {"/c": "c"}, "kubernetes_node_labels", "keys"),
        ("kubernetes_node_labels", {f"{'a.' * 126}aa/c": "c"}, "kubernetes_node_labels", "keys"),
        ("kubernetes_node_taints", "x", "kubernetes_node_taints", "a list"),
        ("kubernetes_node_taints", ["x"], "kubernetes_node_taints[0]", "a mapping of key"),
        ("kubernetes_node_taints", [{"key": "a"}], "kubernetes_node_taints[0]", "a mapping of key"),
        ("kubernetes_node_taints", taint(since=1), "kubernetes_node_taints[0]", "a mapping of key"),
        ("kubernetes_node_taints", taint(key="a b"), "kubernetes_node_taints[0].key", "63 letters"),
        ("kubernetes_node_taints", taint(key=["a"]), "kubernetes_node_taints[0].key", "63 letters"),
        ("kubernetes_node_taints", taint(value=1), "kubernetes_node_taints[0].value", "quote it"),
        ("kubernetes_node_taints", taint(value="a/b"), "kubernetes_node_taints[0].value", "63 letters"),
        ("kubernetes_node_taints", [TAINT, taint(value="x")[0]], "kubernetes_node_taints[1]", "the only one"),
    ],
)
def test_wrong_values_are_named_with_what_is_allowed(name: str, value: Any, place: str, wants: str) -> None:
    (refusal,) = find({name: value})
    assert refusal.message.startswith(f"'{place}' must be ")
    assert wants in refusal.message


@pytest.mark.parametrize(
    "values",
    [
        {"ansible_host": "192.0.2.1", "ansible_port": "22", "ansible_user": None, "ansible_become": "yes"},
        {"ansible_port": 65535, "ansible_become": "y"},
        {"gpusmith_kubeconfig": "/nowhere/config", "validation_kubeconfig": ""},
        {"host_baseline_sysctl": {"vm.swappiness": 0, "net.ipv4.tcp_rmem": "4096 131072 6291456"}},
        {
            "host_baseline_sysctl_minimum": {
                "fs.inotify.max_user_instances": "1024",
                "vm.max_map_count": 262144,
            }
        },
        {"host_baseline_huge_pages": {"2Mi": "1024", "1Gi": 0}},
        {"kubernetes_node_labels": {"a": "", "example.com/A_b.c-1": "H100_80.GB-x", "a" * 63: "b" * 63}},
        {"kubernetes_node_labels": {f"{'a.' * 126}a/c": "c"}},
        {"kubernetes_node_taints": [TAINT, {"key": "nvidia.com/gpu", "effect": "NoExecute"}]},
        {"kubernetes_node_taints": taint(value=None), "rack": ["anything"]},
        {"gpusmith_gpu_count": "8", "validation_timeout_pod_s": None},
        {"gpusmith_gpu_model": "NVIDIA-RTX-A6000"},
        {"gpusmith_gpu_model": ""},
        {"gpusmith_gpus_ignored": ["10de:1FB0", "0000:18:00.0"]},
        {"gpu_operands_namespace": "gpu-operands", "gpu_operands_runtime_class": "nvidia"},
        {"gpu_upgrade_stop_units": ["nvidia-dcgm", "dcgm@1.service"], "gpu_upgrade_evict": {"app": "a"}},
        {
            "gpu_monitoring_interval_s": "10",
            "gpu_monitoring_retention": "1y6w",
            "gpu_monitoring_operator_labels": {"release": "s"},
        },
        {"gpu_upgrade_canary": 0, "gpu_upgrade_soak_s": 0, "gpu_upgrade_drain_timeout_s": "0"},
    ],
)
def test_good_values_pass(values: dict[str, Any]) -> None:
    assert find(values) == []


def test_defaults_keep_the_rules() -> None:
    given = {name: spec.default for name, spec in load().variables.items() if spec.default is not None}
    assert find({name: value for name, value in given.items() if not has_open(value)}) == []


def test_there_are_rules_for_declared_variables_only() -> None:
    assert set(RULES) - set(CONNECTION) <= set(load().variables)


@pytest.mark.parametrize(
    "values",
    [
        {"validation_labels": {"team x": "a"}},
        {"validation_labels": {"team": "a b"}},
        {"validation_annotations": {"a": False}},
        {"validation_annotations": {"a": [1]}},
        {"validation_pod_limits": {"memory": "lots"}},
        {"validation_pod_limits": {"memory": "0"}},
        {"validation_pod_limits": {"nvidia.com/gpu": "1"}},
        {"validation_pod_limits": {"gpus": "1"}},
        {"validation_pod_limits": {"rdma/a b": "1"}},
        {"gpusmith_image_pull_secrets": ["team/registry"]},
        {"gpusmith_image_pull_secrets": ["a" * 254]},
        {"gpu_operands_labels": {"team": "a b"}},
    ],
)
def test_what_no_pod_of_the_suite_could_have_is_refused(values: dict[str, Any]) -> None:
    assert len(find(values)) == 1
    assert find({"validation_labels": {"a": "b"}, "validation_annotations": {"x.io/a": "any text"}}) == []
    assert (
        find({"validation_pod_limits": {"cpu": 4, "memory": "4Gi", "rdma/hca_shared_devices_a": "1"}}) == []
    )
    assert find({"gpusmith_image_pull_secrets": ["registry.example", "a" * 253]}) == []
