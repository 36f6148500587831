"""Credentials of registries for the suite's pods: copies of the site's Secrets, which go with the run's namespace."""

from __future__ import annotations

from gpusmith.cluster.api import Cluster
from gpusmith.errors import InputError
from gpusmith.workloads.jobs import Run, labels

TYPES = ("kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg")


def copy(cluster: Cluster, run: Run) -> None:
    """Copy the Secrets that the run's pods name into its namespace.

    Raises:
        InputError: one is not there, or is none of a registry.
    """
    for name in run.pull_secrets:
        place = f"'{run.secrets_from}/{name}'"
        found = cluster.get(f"/api/v1/namespaces/{run.secrets_from}/secrets/{name}")
        if found is None or found.get("type") not in TYPES:
            what = "does not exist" if found is None else f"is of type '{found.get('type')}'"
            raise InputError(
                f"Secret {place} of 'gpusmith_image_pull_secrets' {what}.",
                f"Make it: kubectl -n {run.secrets_from} create secret docker-registry {name} --docker-server=REGISTRY"
                " --docker-username=NAME --docker-password=PASSWORD",
            )
        cluster.create(
            f"/api/v1/namespaces/{run.namespace}/secrets",
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "type": found["type"],
                "metadata": {"name": name, "namespace": run.namespace, "labels": labels(run)},
                "data": found.get("data") or {},
            },
        )
