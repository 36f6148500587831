"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: foreign_operands
short_description: Refuse operands that would fail beside those of somebody else, without credentials, or with the runtime
description:
  - Fails if a DaemonSet or Deployment outside of gpusmith's namespace runs a component that gpusmith is to manage.
  - Fails if nodes hand GPUs out by claims, and the cluster does not serve C(resource.k8s.io/v1).
  - Fails if a Secret with which images are pulled is not in gpusmith's namespace.
author: gpusmith contributors
options:
  kubeconfig: {type: path, required: true, description: Path of a kubeconfig on the controller.}
  namespace: {type: str, required: true, description: Namespace of gpusmith.}
  components: {type: list, elements: str, required: true, description: Components that gpusmith is to manage.}
  by_claims: {type: bool, default: false, description: Whether nodes hand GPUs out by claims. The cluster must serve them, and the DRA driver is a component.}
  pull_secrets: {type: list, elements: str, default: [], description: Names of Secrets with which images are pulled.}
  plugin_strategies: {type: list, elements: str, description: "Strategies besides CDI that the runtime accepts (C(envvar), C(volume-mounts))."}
"""
