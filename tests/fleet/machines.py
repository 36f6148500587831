"""A namespace of such a cluster, whose pods look at the machines of its nodes, and end at once."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Sequence
from typing import Any

from tests.fleet import api

NAMESPACE = "team"
PLACE = f"/api/v1/namespaces/{NAMESPACE}/"
BATCH = f"/apis/batch/v1/namespaces/{NAMESPACE}/"


class Fleet(api.Fleet):
    """As `api.Fleet`, with namespace 'team'.

    Args:
        nodes: how many.
        made: as of `api.Fleet`.
        pods: as of `api.Fleet`.
        records: what the probe prints on each node; with a node that is not there, it has no Python.

    Attributes:
        refuses: what the API server says to such pods; empty if it admits them.
        interrupt_at: so many pods do not end; when they are there, the run is interrupted.
        there: what was made and is not removed, by its path.
        ever: all paths of what was made.
    """

    def __init__(
        self, nodes: int, made: Sequence[api.Object], pods: Sequence[api.Object], records: dict[str, str]
    ) -> None:
        super().__init__(nodes, made, pods)
        self.records, self.refuses, self.interrupt_at = records, "", 0
        self.there: dict[str, api.Object] = {}
        self.ever: list[str] = []

    def of_pods(
        self, method: str, path: str, query: dict[str, str], body: api.Object
    ) -> tuple[int, str] | None:
        if not path.startswith((PLACE, BATCH)):
            return None
        if method == "POST":
            return self._create(path, body, dry="dryRun" in query)
        if method == "DELETE":
            self.there.pop(path, None)
        if path.endswith("/log"):
            return 200, self._log(self.there[path.removesuffix("/log")])
        if method == "GET" and path.rpartition("/")[2] in (
            "pods",
            "jobs",
            "services",
            "configmaps",
            "events",
        ):
            return 200, json.dumps({"items": self._chosen(path, query.get("labelSelector", ""))})
        return 200, json.dumps({"metadata": {}})

    def _create(self, path: str, body: api.Object, dry: bool) -> tuple[int, str]:
        if self.refuses and body["kind"] == "Pod":
            return 403, json.dumps({"kind": "Status", "message": self.refuses, "code": 403})
        made = f"{path}/{body['metadata']['name']}"
        if not dry:
            self.there[made] = body
            self.ever.append(made)
            if self.interrupt_at and sum("/pods/" in each for each in self.ever) == self.interrupt_at:
                self.interrupt()
        return 201, json.dumps(body)

    def _chosen(self, path: str, selector: str) -> list[api.Object]:
        rows: list[Any] = [row for name, row in self.there.items() if name.rpartition("/")[0] == path]
        if path.endswith("/pods"):
            status = {"phase": "Running" if self.interrupt_at else "Succeeded"}
            rows = [
                {**row, "spec": {**row["spec"], "nodeName": _node(row)}, "status": status} for row in rows
            ]
        for key, several, one in re.findall(r"([^,]+?)(?: in \(([^)]*)\)|=([^,]*))(?:,|$)", selector):
            wanted = several.split(",") if several else [one]
            rows = [row for row in rows if row["metadata"]["labels"].get(key) in wanted]
        return rows

    def _log(self, pod: api.Object) -> str:
        record = self.records.get(_node(pod))
        packed = base64.b64encode(zlib.compress((record or "").encode())).decode()
        said = {"status": 0, "stderr": ""} if record else {"status": 69, "stderr": "it has no python3"}
        return json.dumps({"schema": "gpusmith.workload/1", "ok": True, "packed": packed, **said}) + "\n"


def _node(pod: api.Object) -> str:
    terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return str(terms["nodeSelectorTerms"][0]["matchFields"][0]["values"][0])
