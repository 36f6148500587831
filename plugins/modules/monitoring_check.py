"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: monitoring_check
short_description: Refuse monitoring that could not work in a cluster
description:
  - >-
    Refuses a second dcgm-exporter, addresses of Prometheus and Alertmanager that do not answer, a namespace of others, parts that an earlier run made
    in another namespace, rules that cannot be read, Secrets that are not there, and parts of others that are not there.
  - Changes nothing.
author: gpusmith contributors
options:
  kubeconfig: {type: path, required: true, description: Path of a kubeconfig on the controller.}
  dcgm_exporter: {type: str, required: true, choices: [managed, existing, none], description: Who runs dcgm-exporter.}
  prometheus: {type: str, required: true, choices: [managed, existing, none], description: Who runs Prometheus.}
  prometheus_url: {type: str, default: "", description: Address of an existing Prometheus.}
  alertmanager: {type: str, required: true, choices: [managed, existing, none], description: Who runs Alertmanager.}
  alertmanager_url: {type: str, default: "", description: Address of an existing Alertmanager.}
  read: {type: dict, default: {}, description: "Parts of others that a managed Prometheus reads, with names of their pods."}
  storage: {type: dict, default: {}, description: "Size and StorageClass of a managed Prometheus; empty for none."}
  namespace: {type: str, required: true, description: Namespace of all other parts.}
  exporter_namespace: {type: str, required: true, description: Namespace of gpusmith's dcgm-exporter.}
  namespaces: {type: list, elements: str, default: [], description: Namespaces in which pods pull images with these Secrets.}
  pull_secrets: {type: list, elements: str, default: [], description: Names of Secrets with which pods pull images.}
  disabled_alerts: {type: list, elements: str, default: [], description: Names of alerts that are left out.}
"""

RETURN = r"""
operator: {type: bool, returned: success, description: Whether the cluster has the kinds of Prometheus Operator.}
spaces: {type: dict, returned: success, description: "Namespaces of workloads of C(read), by part."}
"""
