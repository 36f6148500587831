"""The manifests of examples/pipeline, as 'kubectl apply -k' makes them, with what a site sets."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpusmith import yaml_text
from gpusmith.cluster.api import Object
from gpusmith.cluster.apply import of_site
from gpusmith.names import GPU_RESOURCE, MANAGED_BY, MANAGER, SIMULATED_LABEL
from gpusmith.paths import repo_root

KUSTOMIZATION, NAMESPACE = "kustomization.yml", "namespace.yml"
"""The second one is not of the first: 'kubectl delete -k' would delete a team's namespace."""
PART_OF, NAME_LABEL, PIPELINE = "app.kubernetes.io/part-of", "app.kubernetes.io/name", "gpusmith-pipeline"
"""Label of all its objects."""
PREPROCESS, TRAIN, INFERENCE = "preprocess", "train", "inference"
JOBS = (PREPROCESS, TRAIN)
SETUP = ("Namespace", "PersistentVolumeClaim", "ConfigMap")
"""Kinds that all steps need."""


def folder() -> Path:
    """Where the example is."""
    return repo_root() / "examples" / "pipeline"


@dataclass(frozen=True)
class Pipeline:
    """What a site sets.

    Attributes:
        namespace: of all objects.
        image: of all pods.
        storage_class: of the volume; empty for the cluster's default.
        node_port: of the Service.
        train_s: how long the training goes on.
        simulated: the inventory's word; the pods are told, and get simulated GPUs only.
        tolerations: of the pod that needs no GPU.
        pull_secrets: names of Secrets in the namespace.
    """

    namespace: str
    image: str
    storage_class: str = ""
    node_port: int = 30002
    train_s: int = 60
    simulated: bool = False
    tolerations: tuple[Mapping[str, str], ...] = ()
    pull_secrets: tuple[str, ...] = ()
    source: Path = field(default_factory=folder)

    @property
    def objects(self) -> list[Object]:
        """All of them, in the order of the steps."""
        return [of_site(self._set(row), {MANAGED_BY: MANAGER}, self.pull_secrets) for row in self._read()]

    def of(self, step: str) -> list[Object]:
        """What one step makes; the first one also what all need."""
        named = [row for row in self.objects if row["metadata"]["name"] == step]
        return (
            [*(row for row in self.objects if row["kind"] in SETUP), *named] if step == PREPROCESS else named
        )

    def _read(self) -> Iterator[Object]:
        given = yaml_text.load((self.source / KUSTOMIZATION).read_text())
        for name in (NAMESPACE, *given["resources"]):
            yield from yaml_text.load_all((self.source / name).read_text())
        for row in given["configMapGenerator"]:
            yield {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": row["name"], "labels": dict(given["generatorOptions"]["labels"])},
                "data": {Path(name).name: (self.source / name).read_text() for name in row["files"]},
            }

    def _set(self, row: Object) -> Object:
        made = copy.deepcopy(row)
        kind, spec = made["kind"], made.get("spec") or {}
        if kind == "Namespace":
            made["metadata"]["name"] = self.namespace
        else:
            made["metadata"]["namespace"] = self.namespace
        if kind == "PersistentVolumeClaim" and self.storage_class:
            spec["storageClassName"] = self.storage_class
        if kind == "Service":
            spec["ports"][0]["nodePort"] = self.node_port
        if made["metadata"]["name"] == TRAIN:
            spec["activeDeadlineSeconds"] += self.train_s
        if "template" in spec:
            self._set_pod(made["metadata"]["name"], spec["template"]["spec"])
        return made

    def _set_pod(self, step: str, spec: dict[str, Any]) -> None:
        (container,) = spec["containers"]
        container["image"] = self.image
        env = {row["name"]: row["value"] for row in container["env"]}
        if step == TRAIN:
            env["SECONDS"] = str(self.train_s)
        if step == PREPROCESS and self.tolerations:
            spec["tolerations"] = [dict(row) for row in self.tolerations]
        if self.simulated and GPU_RESOURCE in container["resources"].get("limits", {}):
            env["GPUSMITH_SIMULATED"] = "true"
            spec["nodeSelector"] = {SIMULATED_LABEL: "true"}
        container["env"] = [{"name": name, "value": value} for name, value in env.items()]
