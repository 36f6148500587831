"""A device plugin that others run must hand out GPUs in a way that the runtime of our nodes accepts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gpusmith.cluster.plugin_strategy import unreached, untold

IMAGE = "nvcr.io/nvidia/k8s-device-plugin:v0.17.1"
FOLDER = {"name": "kubelet", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}


def plugin(**container: Any) -> dict[str, Any]:
    """A DaemonSet like that of NVIDIA's static manifest, which sets no strategy."""
    spec = {"containers": [{"name": "ctr", "image": IMAGE, **container}], "volumes": [FOLDER]}
    return {
        "metadata": {"namespace": "kube-system", "name": "nvidia-device-plugin-daemonset"},
        "spec": {"template": {"spec": spec}},
    }


def env(**values: str) -> dict[str, Any]:
    return {"env": [{"name": name, "value": value} for name, value in values.items()]}


def judged(daemon_set: Mapping[str, Any], *accepted: str) -> list[str]:
    return unreached([daemon_set], accepted)


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
    "daemon_set",
    [
        plugin(**env(DEVICE_LIST_STRATEGY="cdi-cri")),
        plugin(**env(DEVICE_LIST_STRATEGY="cdi-annotations")),
        plugin(**env(DEVICE_LIST_STRATEGY="envvar, cdi-cri")),
        plugin(args=["--device-list-strategy=cdi-cri"]),
        plugin(command=["nvidia-device-plugin"], args=["--device-list-strategy", "cdi-cri"]),
        plugin(args=["--device-list-strategy=envvar", "--device-list-strategy=cdi-cri"]),
        plugin(command=["sh", "-c", "exec nvidia-device-plugin --device-list-strategy 'cdi-cri'"]),
        # Arguments win over the environment.
        plugin(args=["--device-list-strategy=cdi-cri"], **env(DEVICE_LIST_STRATEGY="envvar")),
        plugin(**GPU_OPERATOR, **env(DEVICE_LIST_STRATEGY="cdi-annotations,cdi-cri")),
        # No device plugins.
        plugin(command=["gpu-feature-discovery"]),
        plugin(command=["mps-control-daemon"]),
        plugin(image="example.org/gke/gpu-device-plugin:1"),
    ],
)
def test_what_reaches_containers_is_not_refused(daemon_set: dict[str, Any]) -> None:
    assert judged(daemon_set) == []
    assert untold([daemon_set]) == []


@pytest.mark.parametrize(
    ("daemon_set", "named"),
    [
        (plugin(), "'envvar'"),
        (plugin(**env(DEVICE_LIST_STRATEGY="")), "'envvar'"),
        (plugin(**env(DEVICE_LIST_STRATEGY="volume-mounts")), "'volume-mounts'"),
        (plugin(**env(DEVICE_LIST_STRATEGY="envvar,volume-mounts")), "'envvar' and 'volume-mounts'"),
        (
            plugin(args=["--device-list-strategy=envvar"], **env(DEVICE_LIST_STRATEGY="cdi-cri")),
            "'envvar'",
        ),
        (plugin(**GPU_OPERATOR, **env(DEVICE_LIST_STRATEGY="envvar")), "'envvar'"),
        (
            plugin(**env(DEVICE_LIST_STRATEGY="cdi-annotations", CDI_ANNOTATION_PREFIX="nvidia.cdi.k8s.io/")),
            "'cdi-annotations' with prefix 'nvidia.cdi.k8s.io/'",
        ),
    ],
)
def test_what_does_not_is_named_with_what_to_do(daemon_set: dict[str, Any], named: str) -> None:
    (sentence,) = judged(daemon_set)
    assert sentence.startswith(
        f"Device plugin 'kube-system/nvidia-device-plugin-daemonset' hands out GPUs by {named}, which"
    )
    assert "new GPU pods would start without GPUs" in sentence
    assert "Set DEVICE_LIST_STRATEGY of the plugin to 'cdi-cri', or to 'envvar,cdi-cri' while" in sentence


@pytest.mark.parametrize(
    "container",
    [
        FROM_MAP,
        {"envFrom": [{"configMapRef": {"name": "configs"}}]},
        {"args": ["--config-file=/etc/plugin/config.yaml"]},
        # NVIDIA's chart with a ConfigMap: a config-manager copies one of its keys there.
        {"command": ["nvidia-device-plugin"], **env(CONFIG_FILE="/config/config.yaml")},
    ],
)
def test_what_only_a_file_says_is_neither_refused_nor_passed_over(container: dict[str, Any]) -> None:
    assert judged(plugin(**container)) == []
    (sentence,) = untold([plugin(**container)])
    assert "'kube-system/nvidia-device-plugin-daemonset' is configured by a file or ConfigMap" in sentence
    # A flag wins over all of it.
    flag = {**container, "args": ["--device-list-strategy=envvar"]}
    assert (untold([plugin(**flag)]), len(judged(plugin(**flag)))) == ([], 1)


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
