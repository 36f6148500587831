"""Who else runs an operand."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.cluster.operands import second_owners
from tests.unit.cluster.roles import filled_in

PLUGIN = {"image": "registry/nvidia/k8s-device-plugin:v0.17"}
DISCOVERY = {**PLUGIN, "command": ["gpu-feature-discovery"]}


def workload(namespace: str, *containers: dict[str, Any]) -> dict[str, Any]:
    """A DaemonSet with these containers."""
    return {
        "metadata": {"namespace": namespace, "name": "some"},
        "spec": {"template": {"spec": {"containers": list(containers)}}},
    }


def components(**owners: str) -> list[dict[str, str]]:
    """What the role refuses by its own variables."""
    given = {f"gpu_operands_{name}": owner for name, owner in owners.items()}
    found: list[dict[str, str]] = filled_in("{{ __gpu_operands_components }}", **given)
    return found


def test_a_second_owner_is_named_with_what_to_do() -> None:
    (sentence,) = second_owners([workload("theirs", {"image": "sidecar:1"}, PLUGIN)], "ours", components())
    assert sentence == (
        "'theirs/some' is a device plugin of somebody else."
        " Remove it, or say that it stays with 'gpu_operands_device_plugin: existing'."
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


def test_the_gpu_operator_is_always_refused() -> None:
    owners = dict.fromkeys(("device_plugin", "feature_discovery", "node_feature_discovery"), "existing")
    operator = workload("theirs", {"image": "nvcr.io/nvidia/gpu-operator:v25.3.0"})
    assert "GPU Operator" in second_owners([operator], "ours", components(**owners))[0]


def test_ours_and_strangers_are_left_alone() -> None:
    others = [workload("ours", PLUGIN), workload("theirs", {"image": "nginx:1"})]
    assert second_owners(others, "ours", components()) == []
