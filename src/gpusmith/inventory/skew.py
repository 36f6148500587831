"""Whether the kubelets that the inventory asks for go with the cluster that they join.

Facts: https://kubernetes.io/releases/version-skew-policy/ (read 2026-11-23): a kubelet must not be newer than the API server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from gpusmith.cluster.api import ApiRefused, Cluster
from gpusmith.errors import Refusal
from gpusmith.inventory.target import on_hosts


def release(version: str) -> tuple[int, int] | None:
    """Major and minor of '1.35.4', 'v1.35.4-eks-1' or '1.35.4-1.1'; None of anything else."""
    found = re.match(r"v?(\d+)\.(\d+)\.\d", version)
    return (int(found[1]), int(found[2])) if found else None


def ask_version(cluster: Cluster) -> str:
    """What the API server says that it is; empty where it does not tell everybody."""
    try:
        return str(json.loads(cluster.call("GET", "/version"))["gitVersion"])
    except (ApiRefused, KeyError, TypeError, ValueError):
        return ""


def check_skew(wanted: Mapping[str, str], server: str) -> list[Refusal]:
    """Refuse kubelets that are newer than the API server, which Kubernetes does not support.

    Args:
        wanted: version of the kubelet by node.
        server: the API server's.
    """
    limit = release(server)
    newer: dict[str, list[str]] = {}
    for node, version in wanted.items():
        asked = release(version)
        if limit and asked and asked > limit:
            newer.setdefault(version, []).append(node)
    return [
        on_hosts(
            Refusal(
                f"'kubernetes_node_version' is '{version}', and the cluster's API server is '{server}': no kubelet may be newer.",
                f"Set 'kubernetes_node_version' to a release of {limit[0]}.{limit[1]}, or upgrade the control plane first.",
            ),
            nodes,
        )
        for version, nodes in newer.items()
        if limit
    ]
