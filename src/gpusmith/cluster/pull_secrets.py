"""Credentials of registries: Secrets that a site makes in the operands' namespace."""

from __future__ import annotations

from collections.abc import Iterable

from gpusmith.cluster.api import Cluster, Object
from gpusmith.errors import InputError

TYPES = ("kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg")


def read(cluster: Cluster, namespace: str, names: Iterable[str]) -> list[Object]:
    """The Secrets of these names.

    Raises:
        InputError: one is not there, or is none of a registry.
    """
    return [_read(cluster, namespace, name) for name in names]


def _read(cluster: Cluster, namespace: str, name: str) -> Object:
    folder = f"/api/v1/namespaces/{namespace}"
    found = cluster.get(f"{folder}/secrets/{name}")
    if found is not None and found.get("type") in TYPES:
        return found
    what = "does not exist" if found is None else f"is of type '{found.get('type')}'"
    # Before the first run, site.yml has not made it yet.
    first = "" if cluster.get(folder) else f"Make its namespace: kubectl create namespace {namespace}. "
    raise InputError(
        f"Secret '{namespace}/{name}' of 'gpusmith_image_pull_secrets' {what}.",
        f"{first}Make it: kubectl -n {namespace} create secret docker-registry {name} --docker-server=REGISTRY"
        " --docker-username=NAME --docker-password=PASSWORD",
    )
