"""How a device plugin that others run hands out GPUs, and whether the runtime of our nodes gives them by that.

NVIDIA's plugin takes a setting from its arguments, else from its environment, else from its configuration file, which a ConfigMap
holds (k8s-device-plugin v0.20.0, api/config/v1/config.go and the templates of its chart, read 2026-11-22).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from gpusmith.cluster import operands

ConfigMaps = Callable[[str, str], Mapping[str, str]]
"""Texts by key of the ConfigMap with a namespace and name; none where there is none."""

CDI_PREFIX = "cdi.k8s.io/"
"""Prefix of the annotations that containerd reads."""
ENVVAR, VOLUMES, ANNOTATIONS, CRI = "envvar", "volume-mounts", "cdi-annotations", "cdi-cri"
OPTIONS = {
    ENVVAR: "nvidia_container_toolkit_accept_envvar_unprivileged",
    VOLUMES: "nvidia_container_toolkit_accept_volume_mounts",
}
"""Variables that have the runtime accept a strategy."""


@dataclass(frozen=True)
class Setting:
    """One setting of the plugin: its flag, its variable, and its path below 'flags.plugin' of the configuration file."""

    flag: str
    variable: str
    key: str


STRATEGY = Setting("device-list-strategy", "DEVICE_LIST_STRATEGY", "deviceListStrategy")
PREFIX = Setting("cdi-annotation-prefix", "CDI_ANNOTATION_PREFIX", "cdiAnnotationPrefix")
FILE = Setting("config-file", "CONFIG_FILE", "")


def unreached(
    workloads: Iterable[Mapping[str, Any]], accepted: Sequence[str], config_maps: ConfigMaps
) -> list[str]:
    """Device plugins whose GPUs would not get into containers of our nodes, one sentence each.

    Args:
        workloads: DaemonSets of the cluster.
        accepted: strategies besides CDI that the runtime accepts.
        config_maps: reads one.
    """
    found = []
    for workload in workloads:
        metadata, spec = workload["metadata"], workload["spec"]["template"]["spec"]
        if operands.DEVICE_PLUGIN not in operands.components(spec):
            continue
        for container in spec.get("containers") or []:
            if operands.component(container) != operands.DEVICE_PLUGIN:
                continue
            plugin = _Plugin(metadata["namespace"], spec, container, config_maps)
            strategies = plugin.values(STRATEGY) or [ENVVAR]
            prefix = (plugin.values(PREFIX) or [CDI_PREFIX])[0]
            if not any(_works(name, prefix, accepted) for name in strategies):
                found.append(_words(f"{metadata['namespace']}/{metadata['name']}", strategies, prefix))
    return found


def by_cdi(namespace: str, spec: Mapping[str, Any]) -> bool:
    """Whether the device plugin of a pod's specification says, without a ConfigMap, that it hands out GPUs by CDI."""
    return any(
        {ANNOTATIONS, CRI} & set(_Plugin(namespace, spec, container, lambda *_: {}).values(STRATEGY))
        for container in spec.get("containers") or []
        if operands.component(container) == operands.DEVICE_PLUGIN
    )


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
        f" (chart of the plugin: '{STRATEGY.key}'; GPU Operator: 'cdi.enabled: true').{instead}"
    )


@dataclass(frozen=True)
class _Plugin:
    """The plugin's container and what it reads."""

    namespace: str
    spec: Mapping[str, Any]
    container: Mapping[str, Any]
    config_maps: ConfigMaps

    def values(self, setting: Setting) -> list[str]:
        """The values of a setting; empty if it is not set."""
        return self._set_beside_file(setting) or self._in_file(setting)

    def _set_beside_file(self, setting: Setting) -> list[str]:
        words = " ".join(str(word) for key in ("command", "args") for word in self.container.get(key) or [])
        given = re.findall(rf"--?{setting.flag}[= ]+[\"']?([^\s\"']+)", words)
        return _split(given) or _split([self._environment(self.container).get(setting.variable, "")])

    def _environment(self, container: Mapping[str, Any]) -> dict[str, str]:
        found: dict[str, str] = {}
        for row in container.get("envFrom") or []:
            found.update(self._read((row.get("configMapRef") or {}).get("name")))
        for row in container.get("env") or []:
            reference = (row.get("valueFrom") or {}).get("configMapKeyRef") or {}
            value = (
                self._read(reference.get("name")).get(str(reference.get("key")))
                if reference
                else row.get("value")
            )
            if value is not None:
                found[str(row["name"])] = str(value)
        return found

    def _read(self, name: str | None) -> Mapping[str, str]:
        return self.config_maps(self.namespace, name) if name else {}

    # --- the configuration file ----------------------------------------------------------------------------

    def _in_file(self, setting: Setting) -> list[str]:
        path = next(iter(self._set_beside_file(FILE)), "")
        try:
            content = yaml.safe_load(self._text(path)) or {}
            value = content["flags"]["plugin"][setting.key]
        except (yaml.YAMLError, KeyError, TypeError):
            return []
        return _split(value if isinstance(value, list) else [value])

    def _text(self, path: str) -> str:
        """Of the file; empty if it does not come from a ConfigMap."""
        mounted = self._mounted(self.container, path)
        return mounted if mounted is not None else self._managed()

    def _managed(self) -> str:
        """The default configuration that the plugin's config-manager container copies on a node without its label."""
        everybody = [*(self.spec.get("initContainers") or []), *(self.spec.get("containers") or [])]
        for container in everybody:
            environment = self._environment(container)
            if folder := environment.get("CONFIG_FILE_SRCDIR"):
                texts = self._folder(container, folder)
                only = next(iter(texts)) if len(texts) == 1 else ""
                default = environment.get("DEFAULT_CONFIG") or ("default" if "default" in texts else only)
                return texts.get(default, "")
        return ""

    def _mounted(self, container: Mapping[str, Any], path: str) -> str | None:
        for mount in container.get("volumeMounts") or []:
            below = str(mount["mountPath"]).rstrip("/")
            texts = self._volume(mount)
            if texts is None or not (path == below or path.startswith(below + "/")):
                continue
            key = str(mount.get("subPath") or path.removeprefix(below).lstrip("/"))
            return texts.get(key, "")
        return None

    def _folder(self, container: Mapping[str, Any], folder: str) -> Mapping[str, str]:
        for mount in container.get("volumeMounts") or []:
            if str(mount["mountPath"]).rstrip("/") == folder.rstrip("/"):
                return self._volume(mount) or {}
        return {}

    def _volume(self, mount: Mapping[str, Any]) -> Mapping[str, str] | None:
        """Texts by file of a mounted ConfigMap; None if it is another kind of volume."""
        for volume in self.spec.get("volumes") or []:
            source = volume.get("configMap")
            if volume["name"] == mount["name"] and source is not None:
                texts = self._read(source.get("name"))
                items = source.get("items")
                if not items:
                    return texts
                return {str(row["path"]): texts[row["key"]] for row in items if row["key"] in texts}
        return None


def _split(values: Iterable[object]) -> list[str]:
    return [part.strip() for value in values for part in str(value or "").split(",") if part.strip()]
