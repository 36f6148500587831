"""Who else runs an operand."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from gpusmith.cluster.operands import second_owners
from gpusmith.paths import repo_root
from tests.unit.cluster.roles import filled_in

PLUGIN = {"image": "registry/nvidia/k8s-device-plugin:v0.17"}
FOLDER = {"hostPath": {"path": "/var/lib/kubelet/device-plugins"}}
DISCOVERY = {**PLUGIN, "command": ["gpu-feature-discovery"]}


def workload(namespace: str, *containers: dict[str, Any]) -> dict[str, Any]:
    """A DaemonSet with these containers."""
    return {
        "metadata": {"namespace": namespace, "name": "some"},
        "spec": {"template": {"spec": {"containers": list(containers), "volumes": [FOLDER]}}},
    }


def components(**owners: str) -> list[str]:
    """What the role asks for by its own variables."""
    given = {f"gpu_operands_{name}": owner for name, owner in owners.items()}
    validate = yaml.safe_load((repo_root() / "roles/gpu_operands/tasks/validate.yml").read_text())
    found: list[str] = filled_in(validate[0]["gpusmith.gpu.foreign_operands"]["components"], **given)
    return found


def test_a_second_owner_is_named_with_what_to_do() -> None:
    (sentence,) = second_owners([workload("theirs", {"image": "sidecar:1"}, PLUGIN)], "ours", components())
    assert sentence == (
        "'theirs/some' is a device plugin of somebody else."
        " Let it stay with 'gpu_operands_device_plugin: existing'; which of the two serves is for its owner to say."
    )


def test_what_gpusmith_made_in_another_namespace_is_nobody_elses() -> None:
    former = workload("former", PLUGIN)
    former["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "gpusmith"}
    (sentence,) = second_owners([former], "ours", components())
    assert sentence == (
        "'former/some' is a device plugin that gpusmith made under another 'gpu_operands_namespace'."
        " Set that again, or remove the old one: kubectl delete namespace former"
    )


def test_a_dra_driver_of_others_is_refused_where_ours_would_run() -> None:
    theirs = workload("theirs", {"image": "registry/dra-driver-nvidia/dra-driver-nvidia-gpu:v0.4.0"})
    assert second_owners([theirs], "ours", components()) == []
    (sentence,) = second_owners([theirs], "ours", [*components(), "dra-driver-nvidia-gpu"])
    assert sentence.startswith(
        "'theirs/some' is a DRA driver of somebody else. Leave the GPUs to it, and take"
    )


def test_a_second_feature_discovery_is_called_so() -> None:
    (sentence,) = second_owners([workload("theirs", DISCOVERY)], "ours", components())
    assert sentence.startswith("'theirs/some' is a GPU feature discovery of somebody else.")
    assert "'gpu_operands_feature_discovery: existing'" in sentence
    assert (
        second_owners([workload("theirs", DISCOVERY)], "ours", components(feature_discovery="existing")) == []
    )


@pytest.mark.parametrize(
    ("container", "variable"),
    [
        (PLUGIN, "device_plugin"),
        ({"image": "registry.k8s.io/nfd/node-feature-discovery:v0.18.3"}, "node_feature_discovery"),
    ],
)
def test_what_stays_is_not_refused(container: dict[str, Any], variable: str) -> None:
    assert len(second_owners([workload("theirs", container)], "ours", components())) == 1
    assert second_owners([workload("theirs", container)], "ours", components(**{variable: "existing"})) == []


OWNERS = dict.fromkeys(("device_plugin", "feature_discovery", "node_feature_discovery"), "existing")
OPERATOR = workload("theirs", {"image": "nvcr.io/nvidia/gpu-operator:v25.3.0"})


def policy(**parts: bool | None) -> dict[str, Any]:
    """A ClusterPolicy; None leaves the word out."""
    spec = {part: {} if on is None else {"enabled": on} for part, on in parts.items()}
    return {"metadata": {"name": "cluster-policy"}, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"driver": True, "toolkit": True}, "installs driver and toolkit (ClusterPolicy 'cluster-policy')"),
        ({"driver": None, "toolkit": False}, "installs driver (ClusterPolicy"),
        ({"driver": False}, "Set toolkit.enabled=false"),
        ({"driver": False, "toolkit": False}, ""),
    ],
)
def test_the_gpu_operator_may_stay_without_driver_and_toolkit(
    spec: dict[str, bool | None], says: str
) -> None:
    found = second_owners([OPERATOR], "ours", components(**OWNERS), lambda: [policy(**spec)])
    assert says in " ".join(found)
    assert bool(found) is bool(says)
    # Without a policy it installs nothing.
    assert second_owners([OPERATOR], "ours", components(**OWNERS)) == []


def test_what_the_gpu_operator_runs_is_refused_as_a_second_owner() -> None:
    plugin = workload("theirs", {**PLUGIN, "command": ["/bin/bash", "-c"], "args": ["/bin/entrypoint.sh"]})
    off = policy(driver=False, toolkit=False)
    (sentence,) = second_owners([OPERATOR, plugin], "ours", components(), lambda: [off])
    assert "'gpu_operands_device_plugin: existing'" in sentence
    assert second_owners([OPERATOR, plugin], "ours", components(**OWNERS), lambda: [off]) == []


def test_without_the_operator_nobody_asks_for_its_policies() -> None:
    def asked() -> list[dict[str, Any]]:
        raise AssertionError

    assert second_owners([workload("theirs", {"image": "nginx:1"})], "ours", components(), asked) == []


def test_ours_and_strangers_are_left_alone() -> None:
    ours = workload("ours", PLUGIN)
    ours["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "gpusmith"}
    assert second_owners([ours, workload("theirs", {"image": "nginx:1"})], "ours", components()) == []


def test_a_device_plugin_of_somebody_else_in_our_namespace_is_found() -> None:
    (sentence,) = second_owners([workload("ours", PLUGIN)], "ours", components())
    assert sentence.startswith("'ours/some' is a device plugin of somebody else.")


@pytest.mark.parametrize(
    "container",
    [
        {
            "image": "projecthami/hami:v2.7.0",
            "command": ["nvidia-device-plugin", "--config-file=/device-config.yaml"],
        },
        {"image": "registry.example/mirror/nvidia-device-plugin:0.17.1"},
        {"image": "registry.example/nvidia/k8s-device-plugin-ubi9:0.17.1"},
        {"image": "volcanosh/volcano-vgpu-device-plugin:v1.9"},
        {"image": "registry.example:5000/acs/gpushare-device-plugin@sha256:0"},
        {"image": "gke.gcr.io/nvidia-gpu-device-plugin:v1"},
        {"image": "base:1", "command": ["/usr/bin/nvidia-device-plugin"]},
        {"image": "base:1", "command": ["sh", "-c"], "args": ["exec /usr/bin/nvidia-device-plugin"]},
    ],
)
def test_a_device_plugin_is_known_by_what_it_does(container: dict[str, Any]) -> None:
    """HAMi#2076: two of them register the GPUs in turn, and counts flip after a restart."""
    (sentence,) = second_owners([workload("theirs", container)], "ours", components())
    assert "is a device plugin of somebody else" in sentence
    elsewhere = workload("theirs", container)
    elsewhere["spec"]["template"]["spec"]["volumes"] = []
    assert second_owners([elsewhere], "ours", components()) == []


@pytest.mark.parametrize(
    "image",
    [
        "nvcr.io/nvidia/mellanox/sriov-network-device-plugin:v3.9",
        "nvcr.io/nvidia/cloud-native/k8s-rdma-shared-dev-plugin:1.5",
        "nvcr.io/nvidia/kubevirt-gpu-device-plugin:v1.4.0",
        "rocm/k8s-device-plugin:1.31",
        "intel/intel-gpu-plugin:0.34",
        "intel/intel-gpu-device-plugin:0.34",
        "amdpsd/rocm-k8s-device-plugin:1.31",
        "registry.example/mirror/rocm-k8s-device-plugin:1.31",
        "vault.habana.ai/docker-k8s-device-plugin/habana-k8s-device-plugin:1.20",
        "cambricon/cambricon-k8s-device-plugin:v2",
        "xilinx/k8s-fpga-device-plugin:1",
    ],
)
def test_plugins_for_other_devices_are_none(image: str) -> None:
    assert second_owners([workload("theirs", {"image": image})], "ours", components()) == []


@pytest.mark.parametrize(
    "image",
    [
        "intel.registry.example:5000/k8s-device-plugin:v0.17.4-amd64",
        "registry.example/amd/nvidia/k8s-device-plugin@sha256:0123",
        "k8s-device-plugin",
    ],
)
def test_addresses_tags_and_digests_make_no_other_vendor(image: str) -> None:
    assert len(second_owners([workload("theirs", {"image": image})], "ours", components())) == 1
