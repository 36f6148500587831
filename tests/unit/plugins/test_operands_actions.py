"""Action plugins of the operands: what the role asks for is what is done and refused in the cluster."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from tests.unit.cluster.conftest import Memory

OURS = {"app.kubernetes.io/managed-by": "gpusmith"}
THEIR_PATH = "/apis/apps/v1/namespaces/theirs/daemonsets/plugin"
OUR_PATH = "/apis/apps/v1/namespaces/ours/daemonsets/plugin"
CLASS_PATH = "/apis/node.k8s.io/v1/runtimeclasses/nvidia"
CLASS: dict[str, Any] = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "nvidia", "labels": OURS},
    "handler": "nvidia",
}


def plugin(namespace: str, **labels: str) -> dict[str, Any]:
    """A DaemonSet that hands out GPUs by NVIDIA's default."""
    volumes = [{"name": "kubelet", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}]
    spec = {"containers": [{"name": "c", "image": "nvidia/k8s-device-plugin:v0.19.0"}], "volumes": volumes}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "plugin", "namespace": namespace, "labels": labels},
        "spec": {"template": {"spec": spec}},
    }


def act(
    name: str, memory: Memory, monkeypatch: pytest.MonkeyPatch, check: bool = False, **asked: Any
) -> dict[str, Any]:
    module = importlib.import_module(f"ansible_collections.gpusmith.gpu.plugins.action.{name}")
    monkeypatch.setattr(module, "Cluster", lambda _kubeconfig: memory.cluster)
    action = object.__new__(module.ActionModule)
    found: dict[str, Any] = action.act({"kubeconfig": "k", **asked}, check)
    return found


@pytest.mark.parametrize(
    ("strategies", "says"),
    [
        (None, ""),
        (["envvar"], ""),
        ([], "'theirs/plugin' hands out GPUs by 'envvar'"),
        (["volume-mounts"], "'theirs/plugin' hands out GPUs by 'envvar'"),
    ],
)
def test_an_existing_plugin_is_judged_by_what_the_runtime_accepts(
    strategies: list[str] | None, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = Memory({THEIR_PATH: plugin("theirs")})
    found = act(
        "foreign_operands",
        memory,
        monkeypatch,
        namespace="ours",
        components=[],
        plugin_strategies=strategies,
    )
    assert bool(found.get("failed")) is bool(says)
    assert says in found.get("msg", "")


@pytest.mark.parametrize("check", [False, True])
def test_what_the_inventory_leaves_to_others_goes_and_theirs_stays(
    check: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = Memory({OUR_PATH: plugin("ours", **OURS), THEIR_PATH: plugin("theirs"), CLASS_PATH: CLASS})
    gone = [plugin("ours", **OURS), plugin("theirs", **OURS)]
    asked = {"objects": [], "gone": gone, "state": "present", "timeout": 0.0}
    found = act("operands", memory, monkeypatch, check, **asked)
    assert found["changed"]
    assert found["objects"] == ["DaemonSet 'ours/plugin'"]
    assert (OUR_PATH in memory.objects) is check
    assert THEIR_PATH in memory.objects
    assert "kubectl delete runtimeclass nvidia" in found["warnings"][0]
    again = act("operands", memory, monkeypatch, check, **{**asked, "objects": [CLASS], "gone": gone[1:]})
    assert "warnings" not in again
