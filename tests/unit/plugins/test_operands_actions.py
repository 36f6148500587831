"""Action plugins of the operands: what the role asks for is what is done and refused in the cluster."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from gpusmith.errors import GpusmithError, InputError
from gpusmith.names import MANAGED_BY
from gpusmith.paths import repo_root
from tests.unit.cluster.conftest import Memory
from tests.unit.cluster.roles import filled_in

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
    name: str,
    memory: Memory,
    monkeypatch: pytest.MonkeyPatch,
    check: bool = False,
    variables: dict[str, Any] | None = None,
    **asked: Any,
) -> dict[str, Any]:
    module = importlib.import_module(f"ansible_collections.gpusmith.gpu.plugins.action.{name}")
    if name == "foreign_operands":
        asked = {
            "namespace": "ours",
            "components": [],
            "plugin_strategies": None,
            "pull_secrets": [],
            "by_claims": False,
            **asked,
        }
    monkeypatch.setattr(module, "Cluster", lambda _kubeconfig: memory.cluster)
    action = object.__new__(module.ActionModule)
    action.variables, action._loader = variables or {}, None
    action._templar = SimpleNamespace(template=lambda value: value)
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
    found = act("foreign_operands", memory, monkeypatch, plugin_strategies=strategies)
    assert bool(found.get("failed")) is bool(says)
    assert says in found.get("msg", "")


def test_a_plugin_that_a_file_configures_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    there = plugin("theirs")
    there["spec"]["template"]["spec"]["containers"][0]["args"] = ["--config-file=/config/config.yaml"]
    found = act("foreign_operands", Memory({THEIR_PATH: there}), monkeypatch, plugin_strategies=[])
    assert "failed" not in found
    assert "'theirs/plugin' is configured by a file" in found["warnings"][0]


SPACE, SECRET = "/api/v1/namespaces/ours", "/api/v1/namespaces/ours/secrets/registry"


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(
    ("there", "says", "namespace_first"),
    [
        ({}, "Secret 'ours/registry' of 'gpusmith_image_pull_secrets' does not exist.", True),
        ({SPACE: {"kind": "Namespace"}}, "does not exist.", False),
        ({SPACE: {"kind": "Namespace"}, SECRET: {"type": "Opaque"}}, "is of type 'Opaque'.", False),
    ],
)
def test_pods_that_could_pull_no_image_are_refused(
    there: dict[str, Any], says: str, namespace_first: bool, check: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = Memory(there)
    with pytest.raises(InputError, match=says) as error:
        act("foreign_operands", memory, monkeypatch, check, pull_secrets=["registry"])
    assert "kubectl -n ours create secret docker-registry registry" in error.value.hint
    assert ("kubectl create namespace ours" in error.value.hint) is namespace_first
    assert memory.done == []


def test_the_role_asks_for_the_secrets_before_it_applies() -> None:
    given = {"gpusmith_image_pull_secrets": ["registry"]}
    tasks = [
        yaml.safe_load((repo_root() / f"roles/gpu_operands/tasks/{name}.yml").read_text())[0]
        for name in ("validate", "install")
    ]
    for task, module in zip(tasks, ("foreign_operands", "operands"), strict=True):
        assert filled_in(task[f"gpusmith.gpu.{module}"]["pull_secrets"], **given) == ["registry"]
        assert filled_in(task[f"gpusmith.gpu.{module}"]["pull_secrets"]) == []


SITE: dict[str, Any] = {"labels": {}, "pull_secrets": []}


def test_operands_have_what_policies_and_registries_of_the_site_ask_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory = Memory({})
    site = {"labels": {"team": "gpu", MANAGED_BY: "x"}, "pull_secrets": ["registry"]}
    asked: dict[str, Any] = {
        **site,
        "objects": [plugin("ours", **OURS)],
        "gone": [],
        "state": "present",
        "timeout": 0.0,
    }
    act("operands", memory, monkeypatch, False, **asked)
    made = memory.objects[OUR_PATH]
    pod = made["spec"]["template"]
    assert made["metadata"]["labels"] == {"team": "gpu", **OURS}
    assert pod["metadata"]["labels"]["team"] == "gpu"
    assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]


@pytest.mark.parametrize("check", [False, True])
def test_what_the_inventory_leaves_to_others_goes_and_theirs_stays(
    check: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = Memory({OUR_PATH: plugin("ours", **OURS), THEIR_PATH: plugin("theirs"), CLASS_PATH: CLASS})
    gone = [plugin("ours", **OURS), plugin("theirs", **OURS)]
    asked: dict[str, Any] = {**SITE, "objects": [], "gone": gone, "state": "present", "timeout": 0.0}
    found = act("operands", memory, monkeypatch, check, **asked)
    assert found["changed"]
    assert found["objects"] == ["DaemonSet 'ours/plugin'"]
    assert (OUR_PATH in memory.objects) is check
    assert THEIR_PATH in memory.objects
    assert "warnings" not in found
    again = act("operands", memory, monkeypatch, check, **{**asked, "objects": [CLASS], "gone": gone[1:]})
    assert "warnings" not in again
    other = {**CLASS, "metadata": {**CLASS["metadata"], "name": "other"}}
    renamed = act("operands", memory, monkeypatch, check, **{**asked, "objects": [other], "gone": []})
    assert "kubectl delete runtimeclass nvidia" in renamed["warnings"][0]


def play_of(*hosts: str, **applied: str) -> dict[str, Any]:
    """Variables of a task in a play of somebody's own, without our guard; the inventory has 'a' and 'b' and says nothing."""
    rows: dict[str, dict[str, str]] = {"a": {}, "b": {}}
    return {
        "groups": {"gpu_nodes": list(rows)}, "ansible_play_hosts_all": list(hosts), "inventory_hostname": hosts[0],
        "hostvars": SimpleNamespace(raw_get=rows.__getitem__), **applied,
    }  # fmt: skip


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(
    ("state", "applied", "says"),
    [
        ("present", {"gpu_operands_device_plugin": "existing"}, "'existing' for 'a'; 'managed' for 'b'"),
        ("absent", {}, "leaves out need what would be deleted: 'b'"),
    ],
)
def test_a_play_on_some_hosts_takes_nothing_from_the_others(
    state: str, applied: dict[str, str], says: str, check: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = plugin("ours", **OURS)
    asked: dict[str, Any] = {
        **SITE,
        "objects": [ours] if state == "absent" else [],
        "gone": [ours],
        "state": state,
        "timeout": 0.0,
    }
    memory = Memory({OUR_PATH: ours})
    with pytest.raises(GpusmithError, match=says):
        act("operands", memory, monkeypatch, check, variables=play_of("a", **applied), **asked)
    assert OUR_PATH in memory.objects
    act("operands", memory, monkeypatch, variables=play_of("a", "b", **applied), **asked)
    assert OUR_PATH not in memory.objects


@pytest.mark.parametrize("served", [False, True])
def test_claims_need_a_cluster_that_serves_them(served: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory({})
    monkeypatch.setattr(type(memory.cluster), "serves", lambda *_: served)
    found = act("foreign_operands", memory, monkeypatch, by_claims=True)
    assert bool(found.get("failed")) is not served
    assert ("'gpusmith_gpu_sharing: dra'" in found.get("msg", "")) is not served
    assert "failed" not in act("foreign_operands", memory, monkeypatch)
