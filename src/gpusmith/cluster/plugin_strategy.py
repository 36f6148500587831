"""How a device plugin that others run hands out GPUs, and whether the runtime of our nodes gives them by that.

NVIDIA's plugin takes a setting from its arguments, else from its environment, else from its configuration file (k8s-device-plugin
v0.20.0, api/config/v1/config.go, read 2026-11-22). What a file or a ConfigMap says is not read here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from gpusmith.cluster import operands
from gpusmith.data.operands import DEVICE_PLUGIN

Container = Mapping[str, Any]

CDI_PREFIX = "cdi.k8s.io/"
"""Prefix of the annotations that containerd reads."""
ENVVAR, VOLUMES, ANNOTATIONS, CRI = "envvar", "volume-mounts", "cdi-annotations", "cdi-cri"
OPTIONS = {
    ENVVAR: "nvidia_container_toolkit_accept_envvar_unprivileged",
    VOLUMES: "nvidia_container_toolkit_accept_volume_mounts",
}
"""Variables that have the runtime accept a strategy."""


class Setting(NamedTuple):
    """One setting of the plugin: its flag and its variable."""

    flag: str
    variable: str


STRATEGY = Setting("device-list-strategy", "DEVICE_LIST_STRATEGY")
PREFIX = Setting("cdi-annotation-prefix", "CDI_ANNOTATION_PREFIX")
FILE = Setting("config-file", "CONFIG_FILE")


def unreached(workloads: Iterable[Mapping[str, Any]], accepted: Sequence[str]) -> list[str]:
    """Device plugins whose GPUs would not get into containers of our nodes, one sentence each.

    Args:
        workloads: DaemonSets of the cluster.
        accepted: strategies besides CDI that the runtime accepts.
    """
    found = []
    for name, container in _plugins(workloads):
        strategies, prefix = _strategies(container), (_values(container, PREFIX) or [CDI_PREFIX])[0]
        if strategies and not any(_works(each, prefix, accepted) for each in strategies):
            found.append(_words(name, strategies, prefix))
    return found


def untold(workloads: Iterable[Mapping[str, Any]]) -> list[str]:
    """Device plugins of which only a file or a ConfigMap can say how they hand out GPUs, one sentence each."""
    return [
        f"Device plugin '{name}' is configured by a file or ConfigMap: whether the container runtime of these nodes accepts how"
        " it hands out GPUs is shown by the allocation and isolation checks of the validation."
        for name, container in _plugins(workloads)
        if not _strategies(container)
    ]


def by_cdi(spec: Mapping[str, Any]) -> bool:
    """Whether the device plugin of a pod's specification says by flag or variable that it hands out GPUs by CDI."""
    return any({ANNOTATIONS, CRI} & set(_strategies(container)) for container in _containers(spec))


def _plugins(workloads: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Container]]:
    for workload in workloads:
        metadata, spec = workload["metadata"], workload["spec"]["template"]["spec"]
        if DEVICE_PLUGIN in operands.components(spec):
            for container in _containers(spec):
                yield f"{metadata['namespace']}/{metadata['name']}", container


def _containers(spec: Mapping[str, Any]) -> list[Container]:
    return [
        container
        for container in spec.get("containers") or []
        if operands.component(container) == DEVICE_PLUGIN
    ]


def _strategies(container: Container) -> list[str]:
    """The plugin's own default where nothing sets any; empty if that is said somewhere else."""
    return _values(container, STRATEGY) or ([] if _is_set_elsewhere(container) else [ENVVAR])


def _values(container: Container, setting: Setting) -> list[str]:
    """By flag or variable."""
    words = " ".join(str(word) for key in ("command", "args") for word in container.get(key) or [])
    given = re.findall(rf"--?{setting.flag}[= ]+[\"']?([^\s\"']+)", words)
    environment = {row["name"]: row.get("value") for row in container.get("env") or []}
    return _split(given) or _split([environment.get(setting.variable)])


def _is_set_elsewhere(container: Container) -> bool:
    names = (STRATEGY.variable, FILE.variable)
    taken = [row for row in container.get("env") or [] if row["name"] in names and row.get("valueFrom")]
    return bool(_values(container, FILE) or container.get("envFrom") or taken)


def _works(strategy: str, prefix: str, accepted: Sequence[str]) -> bool:
    if strategy == ANNOTATIONS:
        return prefix == CDI_PREFIX
    return strategy == CRI or strategy in accepted


def _words(name: str, strategies: Sequence[str], prefix: str) -> str:
    named = " and ".join(
        f"'{each}' with prefix '{prefix}'" if each == ANNOTATIONS else f"'{each}'" for each in strategies
    )
    others = " or ".join(f"'{OPTIONS[each]}: true'" for each in strategies if each in OPTIONS)
    instead = (
        f" Or set {others}; with '{ENVVAR}' every pod can then take GPUs past the scheduler, which validation fails for."
        if ENVVAR in strategies
        else f" Or set {others}."
        if others
        else ""
    )
    return (
        f"Device plugin '{name}' hands out GPUs by {named}, which the container runtime of these nodes does not accept:"
        f" new GPU pods would start without GPUs. Set {STRATEGY.variable} of the plugin to '{CRI}',"
        f" or to '{ENVVAR},{CRI}' while the cluster has nodes without CDI"
        f" (chart of the plugin: 'deviceListStrategy'; GPU Operator: 'cdi.enabled: true').{instead}"
    )


def _split(values: Iterable[object]) -> list[str]:
    return [part.strip() for value in values for part in str(value or "").split(",") if part.strip()]
