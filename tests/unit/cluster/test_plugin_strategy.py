"""A device plugin that others run must hand out GPUs in a way that the runtime of our nodes accepts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gpusmith.cluster.plugin_strategy import unreached

IMAGE = "nvcr.io/nvidia/k8s-device-plugin:v0.17.1"
CONFIG = "version: v1\nflags:\n  plugin:\n    deviceListStrategy: {}\n"
FOLDER = {"name": "kubelet", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}
MANAGER_MOUNT = {"name": "available-configs", "mountPath": "/available-configs"}


def plugin(spec: Mapping[str, Any] | None = None, **container: Any) -> dict[str, Any]:
    """A DaemonSet like that of NVIDIA's static manifest, which sets no strategy."""
    kubelet = {"name": "device-plugin", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}
    given = dict(spec or {})
    given["volumes"] = [kubelet, *given.get("volumes", [])]
    made = {"containers": [{"name": "ctr", "image": IMAGE, **container}], **given}
    made["volumes"] = [*made.get("volumes", []), FOLDER]
    return {
        "metadata": {"namespace": "kube-system", "name": "nvidia-device-plugin-daemonset"},
        "spec": {"template": {"spec": made}},
    }


def env(**values: str) -> dict[str, Any]:
    return {"env": [{"name": name, "value": value} for name, value in values.items()]}


def by_file(default: str = "") -> dict[str, Any]:
    """NVIDIA's chart with a ConfigMap: a config-manager copies one of its keys to an emptyDir."""
    manager = {
        "image": IMAGE,
        "command": ["config-manager"],
        "volumeMounts": [MANAGER_MOUNT],
        **env(CONFIG_FILE_SRCDIR="/available-configs", DEFAULT_CONFIG=default),
    }
    volumes = [
        {"name": "available-configs", "configMap": {"name": "configs"}},
        {"name": "config", "emptyDir": {}},
    ]
    spec = {"initContainers": [manager], "volumes": volumes}
    mounts = [MANAGER_MOUNT, {"name": "config", "mountPath": "/config"}]
    return plugin(
        spec, command=["nvidia-device-plugin"], volumeMounts=mounts, **env(CONFIG_FILE="/config/config.yaml")
    )


def mounted(**more: Any) -> dict[str, Any]:
    """A ConfigMap that is mounted into the plugin itself."""
    spec = {"volumes": [{"name": "c", "configMap": {"name": "configs", **more}}]}
    return plugin(
        spec,
        args=["--config-file=/etc/plugin/config.yaml"],
        volumeMounts=[{"name": "c", "mountPath": "/etc/plugin"}],
    )


def judged(daemon_set: Mapping[str, Any], *accepted: str, **texts: str) -> list[str]:
    maps: dict[tuple[str, str], dict[str, str]] = {("kube-system", "configs"): texts}
    return unreached([daemon_set], accepted, lambda namespace, name: maps.get((namespace, name), {}))


GPU_OPERATOR: dict[str, Any] = {
    "name": "nvidia-device-plugin",
    "command": ["/bin/sh", "-c"],
    "args": ["/bin/entrypoint.sh"],
}
FROM_MAP: dict[str, Any] = {
    "env": [
        {"name": "DEVICE_LIST_STRATEGY", "valueFrom": {"configMapKeyRef": {"name": "configs", "key": "how"}}}
    ]
}


@pytest.mark.parametrize(
    ("daemon_set", "texts"),
    [
        (plugin(**env(DEVICE_LIST_STRATEGY="cdi-cri")), {}),
        (plugin(**env(DEVICE_LIST_STRATEGY="cdi-annotations")), {}),
        (plugin(**env(DEVICE_LIST_STRATEGY="envvar, cdi-cri")), {}),
        (plugin(args=["--device-list-strategy=cdi-cri"]), {}),
        (plugin(command=["nvidia-device-plugin"], args=["--device-list-strategy", "cdi-cri"]), {}),
        (plugin(args=["--device-list-strategy=envvar", "--device-list-strategy=cdi-cri"]), {}),
        (plugin(command=["sh", "-c", "exec nvidia-device-plugin --device-list-strategy 'cdi-cri'"]), {}),
        # Arguments win over the environment, and both over the file.
        (plugin(args=["--device-list-strategy=cdi-cri"], **env(DEVICE_LIST_STRATEGY="envvar")), {}),
        (plugin(**GPU_OPERATOR, **env(DEVICE_LIST_STRATEGY="cdi-annotations,cdi-cri")), {}),
        (plugin(**FROM_MAP), {"how": "cdi-cri"}),
        (plugin(envFrom=[{"configMapRef": {"name": "configs"}}]), {"DEVICE_LIST_STRATEGY": "cdi-cri"}),
        (by_file("h100"), {"h100": CONFIG.format("cdi-cri"), "default": CONFIG.format("envvar")}),
        (by_file(), {"default": CONFIG.format("[envvar, cdi-cri]"), "t4": CONFIG.format("envvar")}),
        (by_file(), {"any": CONFIG.format("cdi-cri")}),
        (mounted(), {"config.yaml": CONFIG.format("cdi-cri")}),
        (mounted(items=[{"key": "k", "path": "config.yaml"}]), {"k": CONFIG.format("cdi-cri")}),
        # No device plugins.
        (plugin(command=["gpu-feature-discovery"]), {}),
        (plugin(command=["mps-control-daemon"]), {}),
        (plugin(image="example.org/gke/gpu-device-plugin:1"), {}),
    ],
)
def test_what_reaches_containers_is_not_refused(daemon_set: dict[str, Any], texts: dict[str, str]) -> None:
    assert judged(daemon_set, **texts) == []


@pytest.mark.parametrize(
    ("daemon_set", "texts", "named"),
    [
        (plugin(), {}, "'envvar'"),
        (plugin(**env(DEVICE_LIST_STRATEGY="")), {}, "'envvar'"),
        (plugin(**env(DEVICE_LIST_STRATEGY="volume-mounts")), {}, "'volume-mounts'"),
        (plugin(**env(DEVICE_LIST_STRATEGY="envvar,volume-mounts")), {}, "'envvar' and 'volume-mounts'"),
        (
            plugin(args=["--device-list-strategy=envvar"], **env(DEVICE_LIST_STRATEGY="cdi-cri")),
            {},
            "'envvar'",
        ),
        (plugin(**GPU_OPERATOR, **env(DEVICE_LIST_STRATEGY="envvar")), {}, "'envvar'"),
        (
            plugin(**env(DEVICE_LIST_STRATEGY="cdi-annotations", CDI_ANNOTATION_PREFIX="nvidia.cdi.k8s.io/")),
            {},
            "'cdi-annotations' with prefix 'nvidia.cdi.k8s.io/'",
        ),
        (by_file("h100"), {"h100": CONFIG.format("volume-mounts")}, "'volume-mounts'"),
        (by_file("h100"), {}, "'envvar'"),
        (by_file("h100"), {"h100": "}"}, "'envvar'"),
        (by_file(), {"one": CONFIG.format("cdi-cri"), "other": CONFIG.format("cdi-cri")}, "'envvar'"),
        (mounted(), {"config.yaml": "version: v1\n"}, "'envvar'"),
    ],
)
def test_what_does_not_is_named_with_what_to_do(
    daemon_set: dict[str, Any], texts: dict[str, str], named: str
) -> None:
    (sentence,) = judged(daemon_set, **texts)
    assert sentence.startswith(
        f"Device plugin 'kube-system/nvidia-device-plugin-daemonset' hands out GPUs by {named}, which"
    )
    assert "new GPU pods would start without GPUs" in sentence
    assert "Set DEVICE_LIST_STRATEGY of the plugin to 'cdi-cri', or to 'envvar,cdi-cri' while" in sentence


@pytest.mark.parametrize(
    ("strategy", "option"),
    [
        ("envvar", "'nvidia_container_toolkit_accept_envvar_unprivileged: true'"),
        ("volume-mounts", "'nvidia_container_toolkit_accept_volume_mounts: true'"),
    ],
)
def test_what_the_inventory_has_the_runtime_accept_is_not_refused(strategy: str, option: str) -> None:
    daemon_set = plugin(**env(DEVICE_LIST_STRATEGY=strategy))
    (sentence,) = judged(daemon_set)
    assert option in sentence
    assert judged(daemon_set, strategy) == []


def test_a_pod_that_does_not_meet_kubelet_hands_out_nothing() -> None:
    stranger = plugin()
    stranger["spec"]["template"]["spec"]["volumes"] = []
    assert judged(plugin())
    assert judged(stranger) == []


def test_a_pod_that_does_not_meet_kubelet_is_no_device_plugin() -> None:
    daemon_set = plugin()
    daemon_set["spec"]["template"]["spec"]["volumes"] = []
    assert judged(daemon_set) == []
