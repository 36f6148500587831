"""Which operand a container is, whoever runs it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gpusmith.cluster.api import ApiRefused
from gpusmith.cluster.operands import component, components, next_step, problem, troubles
from tests.unit.objects import operand

PLUGIN = "registry.example/nvidia/k8s-device-plugin:v0.19.0"


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({"image": PLUGIN}, "nvidia-device-plugin"),
        ({"image": PLUGIN, "args": ["--mig-strategy=none"]}, "nvidia-device-plugin"),
        ({"image": PLUGIN, "command": ["nvidia-device-plugin"]}, "nvidia-device-plugin"),
        ({"image": PLUGIN, "command": ["sh", "-c"], "args": ["/entrypoint.sh"]}, "nvidia-device-plugin"),
        ({"image": PLUGIN, "command": ["gpu-feature-discovery"]}, "gpu-feature-discovery"),
        (
            {
                "image": PLUGIN,
                "command": ["/usr/bin/gpu-feature-discovery"],
                "args": ["-c", "nvidia-device-plugin.yml"],
            },
            "gpu-feature-discovery",
        ),
        ({"image": PLUGIN, "command": ["sh", "-c", "exec gpu-feature-discovery"]}, "gpu-feature-discovery"),
        (
            {"image": PLUGIN, "command": ["sh", "-c", "gpu-feature-discovery & exec nvidia-device-plugin"]},
            "nvidia-device-plugin",
        ),
        ({"image": PLUGIN, "command": ["config-manager"]}, ""),
        ({"image": PLUGIN, "command": ["mps-control-daemon"]}, "mps-control-daemon"),
        ({"image": "nvcr.io/nvidia/gpu-feature-discovery:v0.8.2"}, "gpu-feature-discovery"),
        ({"image": "registry.k8s.io/nfd/node-feature-discovery:v0.18.3"}, "node-feature-discovery"),
        ({"image": "nvcr.io/nvidia/gpu-operator:v25.3.0"}, "gpu-operator"),
        ({"image": "reg.example:5000/nvidia/gpu-operator@sha256:0a"}, "gpu-operator"),
        ({"image": "nvcr.io/nvidia/cloud-native/gpu-operator-validator:v25.3.0"}, ""),
        # Somebody looks around in the image.
        ({"image": PLUGIN, "command": ["sleep", "infinity"]}, ""),
        # AMD's have the same names.
        ({"image": "docker.io/rocm/k8s-device-plugin:1.31"}, ""),
        ({"image": "rocm/gpu-operator:v1.3.0"}, ""),
        ({"image": "registry.example/k8s-device-plugin-dashboard:1"}, ""),
        ({"image": "nginx:1"}, ""),
        ({}, ""),
    ],
)
def test_component(container: dict[str, Any], expected: str) -> None:
    assert component(container) == expected


def pod(path: str, **container: Any) -> dict[str, Any]:
    """A pod's specification with a folder of its host."""
    return {
        "containers": [{"image": PLUGIN, **container}],
        "volumes": [{"emptyDir": {}}, {"hostPath": {"path": path}}],
    }


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/var/lib/kubelet/device-plugins", {"nvidia-device-plugin"}),
        ("/var/snap/microk8s/common/var/lib/kubelet/device-plugins/", {"nvidia-device-plugin"}),
        ("/var/lib/kubelet", {"nvidia-device-plugin"}),
        ("/", {"nvidia-device-plugin"}),
        ("/var/lib/kubelet/pods", set()),
        ("/var/log", set()),
    ],
)
def test_a_device_plugin_has_kubelets_folder(path: str, found: set[str]) -> None:
    assert components(pod(path)) == found


def test_feature_discovery_needs_no_folder() -> None:
    assert components({"containers": [{"image": PLUGIN, "command": ["gpu-feature-discovery"]}]}) == {
        "gpu-feature-discovery"
    }
    assert components({"containers": [{"image": PLUGIN}]}) == components({}) == set()


def test_a_pod_in_back_off_need_not_be_waited_for() -> None:
    pod = operand("nfd-worker", ready=False)
    assert next_step(pod).startswith("Read: kubectl -n gpusmith-system logs nfd-worker-x. ")
    assert next_step(pod).endswith("start it now: kubectl -n gpusmith-system delete pod nfd-worker-x")
    pod["status"]["containerStatuses"][0]["state"] = {"terminated": {"reason": "Error"}}
    assert next_step(pod) == "Read: kubectl -n gpusmith-system logs nfd-worker-x"


def pulls(said: str) -> dict[str, Any]:
    pod = operand("nfd-worker", ready=False)
    waiting = {"reason": "ImagePullBackOff", "message": said}
    pod["status"]["containerStatuses"][0]["state"] = {"waiting": waiting}
    return pod


UNAUTHORIZED = 'Back-off pulling image "x": ErrImagePull: unauthorized: authentication required'


def test_a_pod_whose_image_does_not_come_has_no_log_to_read() -> None:
    step = next_step(pulls(UNAUTHORIZED))
    assert "gpusmith_image_pull_secrets" in step
    assert step.endswith("kubectl -n gpusmith-system describe pod nfd-worker-x")
    assert "secrets" not in next_step(pulls("x: not found"))


DENIED = 'Error creating: admission webhook "validation.gatekeeper.sh" denied the request: labels: {"owner"}'


def refused(name: str, message: str = DENIED, kind: str = "DaemonSet") -> dict[str, Any]:
    return {"involvedObject": {"kind": kind, "name": name}, "message": message}


def of_daemon_set(name: str, owner: str) -> dict[str, Any]:
    pod = operand(name)
    pod["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": owner}]
    return pod


@pytest.mark.parametrize(
    ("pods", "events", "says"),
    [
        ([], [refused("plugin")], ["DaemonSet 'plugin' gets no pod: ", "gatekeeper", "'gpu_operands_labels'"]),
        ([], [refused("plugin", "Error creating: no such account")], ["no such account"]),
        # As on a first run, while there is no service account yet.
        ([operand("nfd-master")], [refused("nfd-master-5d9", kind="ReplicaSet")], []),
        ([of_daemon_set("nfd-worker", "nfd-worker")], [refused("nfd-worker")], []),
        # Pods of all layouts are called alike.
        ([of_daemon_set("nvidia-device-plugin", "nvidia-device-plugin")], [refused("nvidia-device-plugin-time-slicing-4")],
         ["DaemonSet 'nvidia-device-plugin-time-slicing-4' gets no pod"]),
        ([pulls(UNAUTHORIZED), pulls(UNAUTHORIZED)], [], ["Pod 'nfd-worker-x': container 'p'", "'gpusmith_image_pull_secrets'"]),
    ],
)  # fmt: skip
def test_why_operands_do_not_serve_is_told_in_the_clusters_words(
    pods: list[Any], events: list[Any], says: list[str]
) -> None:
    lists = {"pods": pods, "events": events}
    api: Any = SimpleNamespace(items=lambda path, **_: lists[path.rpartition("/")[2]])
    found = troubles(api, "gpusmith-system")
    assert len(found) == bool(says)
    assert [text for text in says if text not in "".join(found)] == []
    assert "'gpu_operands_labels'" not in "".join(found) or DENIED in found[0]


# As Alertmanager 0.35 said them.
FAILED = 'level=ERROR msg="alertmanager exited with error" err="error loading configuration file: {}"'


@pytest.mark.parametrize(
    ("reason", "log", "says"),
    [
        ("CrashLoopBackOff", f"start\nbuild\n{FAILED.format('yaml: line 2: cannot unmarshal')}\n",
         ["Its log ends with: build level=ERROR", "yaml: line 2: cannot unmarshal"]),
        ("CrashLoopBackOff", FAILED.format('parse \\"https://geheim/%zz\\": invalid URL'), ["parse ...: invalid URL"]),
        ("CrashLoopBackOff", FAILED.format("cannot unmarshal !!str `geheim-` into int"), ["!!str ... into int"]),
        ("CrashLoopBackOff", "", []),
        ("CrashLoopBackOff", ApiRefused("no", "", 403), []),
        ("ErrImagePull", "never asked", []),
    ],
)  # fmt: skip
def test_the_log_of_what_ends_again_and_again_is_told_without_secrets(
    reason: str, log: str | ApiRefused, says: list[str]
) -> None:
    states = [{"name": "c", "ready": False, "state": {"waiting": {"reason": reason}}}]
    pod = {"metadata": {"name": "am-1", "namespace": "m"}, "status": {"containerStatuses": states}}

    def read(*where: str) -> str:
        assert where == ("m", "am-1", "c")
        if isinstance(log, ApiRefused):
            raise log
        return log

    api: Any = SimpleNamespace(items=lambda path, **_: [pod] if path.endswith("/pods") else [], log=read)
    _, *ends = troubles(api, "m")
    assert len(ends) == bool(says)
    assert [text for text in says if text not in "".join(ends)] == []
    assert "geheim" not in "".join(ends)
    assert "never asked" not in "".join(ends)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([], "it is Pending"),
        ([{"type": "PodScheduled", "status": "True"}], "it is Pending"),
        (
            [{"type": "PodScheduled", "status": "False", "message": "0/9 nodes are available:\n9 Insufficient memory. "}],
            "it is Pending: 0/9 nodes are available: 9 Insufficient memory",
        ),
        ([{"type": "PodScheduled", "status": "False", "message": "x" * 1000}], f"it is Pending: {'x' * 300}"),
    ],
)  # fmt: skip
def test_a_pod_without_a_node_says_what_the_scheduler_says(rows: list[dict[str, str]], says: str) -> None:
    assert problem({"status": {"phase": "Pending", "conditions": rows}}) == says
