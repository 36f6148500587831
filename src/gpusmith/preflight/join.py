"""Whether a machine that is to join can reach the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpusmith.errors import Refusal
from gpusmith.preflight.words import Facts, Tables, Wanted, refusal

VARIABLE = "kubernetes_node_control_plane_endpoint"


def endpoint(record: Mapping[str, Any], wanted: Wanted) -> str:
    """Where the machine would join; empty if it has joined, or is not to join. A node that serves goes by its own kubeconfig."""
    if record["kubernetes"]["joined"] or wanted.driver_only or wanted.no_driver or not wanted.joins:
        return ""
    return wanted.node.kubernetes.control_plane_endpoint


def check_endpoint(facts: Facts, wanted: Wanted, _tables: Tables) -> Iterator[Refusal]:
    """An API server answers where the machine would join."""
    if facts.get("endpoint_error"):
        yield refusal(
            "cluster",
            f"no API server answers at '{wanted.node.kubernetes.control_plane_endpoint}' from this machine"
            f" ({facts['endpoint_error']})",
            "one that does",
            f"Look at the load balancer or control plane there, and at names and firewalls between; or correct '{VARIABLE}'.",
        )
