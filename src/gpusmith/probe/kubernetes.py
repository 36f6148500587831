"""The kubelet."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kubernetes:
    """Whether the machine has joined a cluster, and under which name.

    Attributes:
        joined: whether kubelet's kubeconfig is there.
        node_name: of its Node object; None if it has not joined.
    """

    kubelet_version: str | None = None
    joined: bool = False
    node_name: str | None = None
