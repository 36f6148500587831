"""Who else runs a device plugin."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpusmith.gpu.plugins.modules.foreign_operands import foreign

COMPONENTS = [{"name": "device plugin", "mark": "k8s-device-plugin", "advice": "Remove it."}]


def workload(namespace: str, *images: str) -> dict[str, Any]:
    """A DaemonSet with these images."""
    return {
        "metadata": {"namespace": namespace, "name": "some"},
        "spec": {"template": {"spec": {"containers": [{"image": image} for image in images]}}},
    }


def test_a_second_owner_is_named_with_what_to_do() -> None:
    (sentence,) = foreign(
        [workload("theirs", "sidecar:1", "registry/nvidia/k8s-device-plugin:v0.17")], "ours", COMPONENTS
    )
    assert sentence == "'theirs/some' is a device plugin of somebody else. Remove it."


def test_ours_and_strangers_are_left_alone() -> None:
    assert (
        foreign([workload("ours", "k8s-device-plugin:1"), workload("theirs", "nginx:1")], "ours", COMPONENTS)
        == []
    )
