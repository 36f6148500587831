"""A cluster in memory on which the pipeline's steps come to an end at once."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.cluster.conftest import Memory
from tests.unit.pipeline.test_refusals import cluster

UUID = "GPU-1"
RESULTS: dict[str, dict[str, Any]] = {
    "preprocess": {"rows": 4, "columns": 2, "sample": [1.0, 1.0], "expected": 0.3},
    "train": {"gpu": UUID, "steps": 9, "loss_first": 18.5, "loss_last": 0.0001, "simulated": True},
}
ANSWER = {"outputs": [0.3], "gpu": "GPU-2", "trained_on": UUID, "simulated": True}


class World(Memory):
    """Jobs end and Deployments serve as they are made, unless a test says what their pods do.

    Attributes:
        status: of a step's pod, instead.
        ends: status of a step's Job or Deployment, instead.
        logs: by step.
        answer: of the service.
    """

    def __init__(self, objects: dict[str, dict[str, Any]] | None = None) -> None:
        super().__init__(cluster() if objects is None else objects)
        self.status: dict[str, dict[str, Any]] = {}
        self.ends: dict[str, dict[str, Any]] = {}
        self.logs = {step: json.dumps(row) for step, row in RESULTS.items()}
        self.answer: dict[str, Any] = ANSWER
        self.asked_for: list[Any] = []

    def apply(self, path: str, body: dict[str, Any], manager: str, dry_run: bool = False) -> dict[str, Any]:
        made, (kind, step) = super().apply(path, body, manager, dry_run), path.split("/")[-2:]
        if kind in ("jobs", "deployments") and not dry_run:
            done = {"succeeded": 1} if kind == "jobs" else {"readyReplicas": 1}
            self.objects[path]["status"] = self.ends.get(step, done)
            phase = {"phase": "Succeeded" if kind == "jobs" else "Running"}
            space = body["metadata"]["namespace"]
            self.objects[f"/api/v1/namespaces/{space}/pods/{step}-x"] = {
                "metadata": {**body["spec"]["template"]["metadata"], "name": f"{step}-x", "namespace": space},
                "spec": {**body["spec"]["template"]["spec"], "nodeName": "gpu"},
                "status": self.status.get(step, phase),
            }
        return made

    def delete(self, path: str, *words: Any, **named: Any) -> bool:
        kind, step = path.split("/")[-2:]
        if kind in ("jobs", "deployments"):
            self.objects.pop(f"{path.split('/apis')[0]}/api/v1/namespaces/here/pods/{step}-x", None)
        return super().delete(path, *words, **named)

    def log(self, _namespace: str, pod: str, container: str) -> str:
        assert container == "workload"
        return self.logs.get(pod.removesuffix("-x"), "")

    def call(self, method: str, path: str, body: Any = None, **_: Any) -> str:
        assert (method, path.rpartition("/")[2]) == ("POST", "predict")
        self.asked_for.append(body)
        return json.dumps(self.answer)
