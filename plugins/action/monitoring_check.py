"""Action plugin: refuse monitoring that could not work in this cluster, before anything is changed."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import ControllerAction

from gpusmith.cluster import monitoring, pull_secrets
from gpusmith.cluster.api import Cluster
from gpusmith.errors import all_of
from gpusmith.monitoring import site_rules


class ActionModule(ControllerAction):
    """Refuses a second exporter, addresses that do not answer, rules that cannot be read; says what is there of others."""

    def act(self, asked: dict[str, Any], check: bool) -> dict[str, Any]:  # noqa: ARG002 - changes nothing
        cluster = Cluster(asked["kubeconfig"])
        site_rules.rule_files(disabled=asked["disabled_alerts"])
        for namespace in asked["namespaces"]:
            pull_secrets.read(cluster, namespace, asked["pull_secrets"])
        operator = monitoring.has_operator(cluster)
        found = monitoring.refuse_impossible(asked, operator)
        found += monitoring.refuse_shared(cluster, asked["namespace"], asked["exporter_namespace"])
        if asked["prometheus"] == "managed":
            found += monitoring.refuse_unbound(cluster, asked["namespace"], asked["storage"])
            if asked["alertmanager"] == "existing" and asked["alertmanager_url"]:
                found += monitoring.refuse_deaf(cluster, asked["alertmanager_url"], asked["namespace"])
        workloads = [
            row
            for kind in ("daemonsets", "deployments", "statefulsets")
            for row in cluster.items(f"/apis/apps/v1/{kind}")
        ]
        rules = monitoring.former_rules(cluster) if operator else []
        found += monitoring.refuse_former([*workloads, *rules], asked["namespace"])
        if asked["dcgm_exporter"] == "managed":
            found += monitoring.second_exporters(workloads, asked["exporter_namespace"])
        spaces = {part: monitoring.homes(workloads, names) for part, names in asked["read"].items()}
        for part, names in asked["read"].items():
            found += monitoring.refuse_homeless(part, names, spaces[part])
        if found:
            raise all_of(found)
        return {"changed": False, "operator": operator, "spaces": spaces}
