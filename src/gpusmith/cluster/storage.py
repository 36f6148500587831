"""Whether a cluster has what makes a volume."""

from __future__ import annotations

from gpusmith.cluster.api import Cluster
from gpusmith.errors import Refusal
from gpusmith.wording import shorten

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def class_missing(
    cluster: Cluster, namespace: str, claim: str, wanted: str, variable: str, without: str = ""
) -> list[Refusal]:
    """A volume that nobody would make, so that a pod would wait for it, or a class that its claim does not have.

    Args:
        cluster: the API.
        namespace: of the claim.
        claim: name of the PersistentVolumeClaim; one that has its volume needs no class.
        wanted: StorageClass; empty for the cluster's default.
        variable: where a site names it.
        without: what else can be done.
    """
    found = cluster.get(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}") or {}
    has = (found.get("spec") or {}).get("storageClassName")
    if wanted and has is not None and has != wanted:
        return [
            Refusal(
                f"'{variable}' names StorageClass '{wanted}', and claim '{namespace}/{claim}' has '{has}' for ever.",
                f"Set it to '{has}', or delete the claim first, with its data.",
            )
        ]
    if (found.get("status") or {}).get("phase") == "Bound":
        return []
    classes = [row["metadata"] for row in cluster.items("/apis/storage.k8s.io/v1/storageclasses")]
    names = {str(row["name"]) for row in classes}
    if not wanted and any((row.get("annotations") or {}).get(DEFAULT_CLASS) == "true" for row in classes):
        return []
    # Volumes that are there may have a class that is only a word.
    volumes = cluster.items("/api/v1/persistentvolumes")
    if wanted in {*names, *(str(row["spec"].get("storageClassName") or "") for row in volumes)}:
        return []
    what = f"names StorageClass '{wanted}', which there is not" if wanted else "needs a default StorageClass"
    known = f"The cluster has {shorten(sorted(names))}." if names else "The cluster has no StorageClass."
    return [Refusal(f"'{variable}' {what}.", f"{known} {without}".strip())]
