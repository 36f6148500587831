"""Action plugins of the monitoring: what is refused before any change, what removal leaves, and what is told at the end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpusmith.gpu.plugins.action import monitoring_check, monitoring_wait, operands

from gpusmith.cluster.monitoring import Missing
from gpusmith.errors import GpusmithError
from tests.unit.cluster.conftest import Memory

OURS = {"app.kubernetes.io/managed-by": "gpusmith"}
SPACE: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "m", "labels": OURS}}
CONFIG: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "c", "namespace": "m", "labels": OURS},
}
STORED = {"/api/v1/namespaces/m": SPACE, "/api/v1/namespaces/m/configmaps/c": CONFIG}
CLAIM = {"/api/v1/namespaces/m/persistentvolumeclaims/prometheus": {"metadata": {"name": "prometheus"}}}
THEIRS: dict[str, Any] = {
    "/apis/apps/v1/namespaces/gpu-operator/daemonsets/nvidia-dcgm-exporter": {
        "metadata": {"name": "nvidia-dcgm-exporter", "namespace": "gpu-operator"},
        "spec": {
            "template": {
                "metadata": {"labels": {"app": "nvidia-dcgm-exporter"}},
                "spec": {"containers": [{"image": "nvcr.io/nvidia/k8s/dcgm-exporter:4.2.3"}]},
            }
        },
    }
}
GRAFANA: dict[str, Any] = {
    "/apis/apps/v1/namespaces/m/deployments/grafana": {
        "metadata": {"name": "grafana", "namespace": "m"},
        "spec": {"template": {"spec": {"containers": []}}},
    }
}
BARE = {"/api/v1/namespaces/m": {**SPACE, "metadata": {"name": "m"}}}
CLASSES: dict[str, Any] = {"/apis/storage.k8s.io/v1/storageclasses/slow": {"metadata": {"name": "slow"}}}
DEFAULT: dict[str, Any] = {
    "/apis/storage.k8s.io/v1/storageclasses/slow": {
        "metadata": {"name": "slow", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    }
}
VOLUMES: dict[str, Any] = {
    "/api/v1/persistentvolumes/v": {"metadata": {"name": "v"}, "spec": {"storageClassName": "word"}}
}


FORMER: dict[str, Any] = {
    f"/apis/apps/v1/namespaces/{space}/deployments/prometheus": {
        "metadata": {"name": "prometheus", "namespace": space, "labels": OURS},
        "spec": {"template": {"metadata": {"labels": {"app": "dcgm-exporter"}}, "spec": {"containers": []}}},
    }
    for space in ("old",)
}


def bound(phase: str) -> dict[str, Any]:
    """A claim that an earlier run has made."""
    return {path: {**claim, "status": {"phase": phase}} for path, claim in CLAIM.items()}


ASKED: dict[str, Any] = {
    "kubeconfig": "k", "dcgm_exporter": "managed", "prometheus": "managed", "prometheus_url": "", "alertmanager": "none",
    "alertmanager_url": "", "exporter_namespace": "gpusmith-system", "namespace": "m", "namespaces": ["m"], "pull_secrets": [],
    "disabled_alerts": [], "storage": {}, "read": {},
}  # fmt: skip
READ: dict[str, Any] = {
    "dcgm_exporter": "existing",
    "read": {"dcgm-exporter": ["dcgm-exporter", "nvidia-dcgm-exporter"]},
}


def acted(
    module: Any, memory: Memory, monkeypatch: pytest.MonkeyPatch, check: bool = False, **asked: Any
) -> dict[str, Any]:
    monkeypatch.setattr(module, "Cluster", lambda _kubeconfig: memory.cluster)
    action = object.__new__(module.ActionModule)
    action.variables, action._loader = {}, None
    action._templar = SimpleNamespace(template=lambda value: value)
    found: dict[str, Any] = action.act({"kubeconfig": "k", **asked}, check)
    return found


@pytest.mark.parametrize(
    ("given", "there", "says"),
    [
        ({}, THEIRS, "'gpu-operator/nvidia-dcgm-exporter' is a dcgm-exporter of somebody else."),
        ({"dcgm_exporter": "existing"}, THEIRS, ""),
        ({"prometheus": "existing"}, {}, "the cluster has no Prometheus Operator"),
        ({"disabled_alerts": ["GpusmithGpuXyd"]}, {}, "Alerts are 'GpusmithGpuXid'"),
        ({"prometheus": "managed", "storage": {"size": "1Gi", "class": "fast"}}, CLASSES, "The cluster has 'slow'."),
        ({"prometheus": "managed", "storage": {"size": "1Gi", "class": "slow"}}, CLASSES, ""),
        ({"prometheus": "managed", "storage": {"size": "1Gi"}}, CLASSES, "needs a default StorageClass"),
        ({"prometheus": "managed", "storage": {"size": "1Gi"}}, DEFAULT, ""),
        ({"prometheus": "managed", "storage": {"size": "1Gi", "class": "gone"}}, bound("Bound"), ""),
        ({"prometheus": "managed", "storage": {"size": "1Gi", "class": "gone"}}, bound("Pending"), "names StorageClass 'gone'"),
        ({"prometheus": "managed", "storage": {"size": "1Gi", "class": "word"}}, VOLUMES, ""),
        ({"namespace": "gpusmith-system"}, {}, "is 'gpusmith-system', where others run: 'nvidia-device-plugin'."),
        ({}, {**BARE, **GRAFANA}, "'gpu_monitoring_namespace' is 'm', where others run: 'grafana'."),
        ({}, BARE, ""),
        ({}, {**STORED, **GRAFANA}, ""),
        (READ, THEIRS, ""),
        (READ, {}, "'gpu_monitoring_dcgm_exporter' is 'existing', and no workload's pods have the label"),
        ({**READ, "namespace": "old"}, FORMER, "no workload's pods have the label"),
        ({}, FORMER, "'prometheus' of an earlier run is in 'old'. Take that away first: ansible-playbook"),
        ({"pull_secrets": ["registry"]}, {}, "Secret 'm/registry' of 'gpusmith_image_pull_secrets' does not exist."),
    ],
)  # fmt: skip
def test_what_could_not_work_is_refused_before_any_change(
    given: dict[str, Any], there: dict[str, Any], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = Memory(there)
    try:
        assert acted(monitoring_check, memory, monkeypatch, **{**ASKED, **given}) == {
            "changed": False,
            "operator": False,
            "spaces": {part: ["gpu-operator"] for part in given.get("read", ())},
        }
        said = ""
    except GpusmithError as error:
        said = str(error)
    assert says in said
    assert bool(said) is bool(says)
    assert memory.done == []


@pytest.mark.parametrize(
    ("there", "says"),
    [
        (CLAIM, "Namespace 'm' stays with the data in its PersistentVolumeClaim 'prometheus'."),
        (GRAFANA, "Namespace 'm' stays with what somebody else runs in it: 'grafana'."),
    ],
)
def test_a_namespace_that_somebody_needs_stays_and_is_named(
    there: dict[str, Any], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {
        "labels": {},
        "pull_secrets": [],
        "objects": [SPACE, CONFIG],
        "gone": [],
        "state": "absent",
        "timeout": 0.0,
    }
    memory = Memory({**STORED, **there})
    found = acted(operands, memory, monkeypatch, **asked)
    assert set(memory.objects) == {"/api/v1/namespaces/m", *there}
    assert found["objects"] == ["ConfigMap 'm/c'"]
    (warning,) = found["warnings"]
    assert warning.startswith(says)
    memory = Memory(dict(STORED))
    assert "warnings" not in acted(operands, memory, monkeypatch, **asked)
    assert memory.objects == {}


MISSING = Missing("no pod", {"gpu-2": "said"})


def test_in_check_mode_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[Any] = []

    def wait_for(*words: Any) -> Missing:
        waited.append(words)
        return MISSING

    monkeypatch.setattr(monitoring_wait.monitoring, "wait_for", wait_for)
    asked: dict[str, Any] = {
        "objects": [],
        "namespace": "m",
        "jobs": [],
        "nodes": [],
        "notes": ["n"],
        "timeout": 1.0,
    }
    for check in (True, False):
        found = acted(monitoring_wait, Memory({}), monkeypatch, check, **asked)
        assert found == {
            "changed": False,
            "missing": "" if check else "no pod",
            "late": {} if check else {"gpu-2": "said"},
            "verdict": {"the cluster": {"notes": ["n"] if check else []}},
        }
        assert bool(waited) is not check
