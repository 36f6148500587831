"""Who else runs an operand."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from gpusmith.cluster.operands import second_owners
from gpusmith.paths import repo_root

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
    role = repo_root() / "roles/gpu_operands"
    files = [yaml.safe_load((role / name).read_text()) for name in ("defaults/main.yml", "vars/main.yml")]
    values = {**files[0], **files[1], **{f"gpu_operands_{name}": owner for name, owner in owners.items()}}
    trusted = {
        name: trust_as_template(value) if isinstance(value, str) else value for name, value in values.items()
    }
    found: list[dict[str, str]] = Templar(DataLoader(), variables=trusted).template(
        trust_as_template("{{ __gpu_operands_components }}")
    )
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
