"""Credentials of registries for the suite's pods: copies of the site's Secrets, which go with the run's namespace."""

from __future__ import annotations

from gpusmith.cluster import pull_secrets
from gpusmith.cluster.api import Cluster
from gpusmith.workloads.jobs import Run, labels


def copy(cluster: Cluster, run: Run) -> None:
    """Copy the Secrets that the run's pods name into its namespace.

    Raises:
        InputError: one is not there, or is none of a registry.
    """
    for found in pull_secrets.read(cluster, run.secrets_from, run.pull_secrets):
        cluster.create(
            f"/api/v1/namespaces/{run.namespace}/secrets",
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "type": found["type"],
                "metadata": {
                    "name": found["metadata"]["name"],
                    "namespace": run.namespace,
                    "labels": labels(run),
                },
                "data": found.get("data") or {},
            },
        )
