"""A cluster in memory, and an API server on the loopback that answers as it is told."""

from __future__ import annotations

import copy
import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest
from ansible.plugins.loader import init_plugin_loader
from ansible.utils.collection_loader import AnsibleCollectionConfig

from gpusmith.cluster.api import (
    CONFLICT,
    MISSING,
    STRATEGIC_PATCH,
    ApiRefused,
    ApiResource,
    Cluster,
    kinds_in,
)
from gpusmith.cluster.retries import Patience
from tests.unit.fake_cluster import discovery

KUBECONFIG = (
    "clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\nusers: [{{name: u, user: {{}}}}]\n"
    "contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
)
Answer = tuple[int, dict[str, str], Any] | None
"""Status, headers and body; None to hang up without one."""


class Server:
    """What it is to answer, in turn, and what it was asked."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.seen: list[tuple[str, str]] = []
        self.bodies: list[Any] = []
        self.kinds: list[str] = []
        self.starts: list[int] = []
        """What it says in turn when it is asked whether it is ready; 200 at the end."""
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def will(self, *answers: Answer) -> None:
        self.answers += answers


@pytest.fixture
def server() -> Iterator[Server]:
    told = Server()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.path == "/readyz":
                self.send_response(told.starts.pop(0) if told.starts else 200)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            told.seen.append((self.command, self.path))
            told.bodies.append(json.loads(body) if body else None)
            told.kinds.append(self.headers.get("Content-Type") or "")
            answer = told.answers.pop(0)
            if answer is None:
                self.close_connection = True
                return
            status, headers, data = answer
            text = data if isinstance(data, bytes) else json.dumps(data).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(text))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815 - names of the base class

        def log_message(self, *_: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    told.port = http.server_port
    threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
    yield told
    http.shutdown()
    http.server_close()


class Time:
    """A clock that goes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def connect(tmp_path: Path, time: Time) -> Callable[..., Cluster]:
    def make(url: str, patience: Patience | None = None) -> Cluster:
        path = tmp_path / "kubeconfig"
        path.write_text(KUBECONFIG.format(server=url))
        return Cluster(str(path), patience, time.sleep, time.clock)

    return make


@pytest.fixture
def client(server: Server, connect: Callable[..., Cluster]) -> Cluster:
    return connect(server.url)


class Memory:
    """Objects by path; what the client does with them.

    Attributes:
        objects: by path.
        refusals: for a method and path, statuses of its next answers.
        done: methods and paths of all changes, dry ones too.
        dry: whether changes were only tried out.
        graces: seconds that deleted pods were given.
        established: whether kinds of CustomResourceDefinitions are served yet.
    """

    def __init__(self, objects: dict[str, dict[str, Any]]) -> None:
        self.objects = objects
        self.refusals: dict[tuple[str, str], list[int]] = {}
        self.asked: list[str] = []
        self.done: list[tuple[str, str]] = []
        self.dry: set[bool] = set()
        self.graces: set[int | None] = set()
        self.at_list: Callable[[], None] = lambda: None
        self.established: Callable[[], bool] = lambda: True
        self.discovered: list[str] = []

    @property
    def cluster(self) -> Cluster:
        return cast(Cluster, self)

    def refuse(self, method: str, path: str) -> None:
        left = self.refusals.get((method, path))
        if left:
            raise ApiRefused(f"The API server refused {method} '{path}'.", "", left.pop(0))

    def change(self, method: str, path: str, dry_run: bool) -> bool:
        self.refuse(method, path)
        self.done.append((method, path))
        self.dry.add(dry_run)
        return not dry_run

    def kinds(self, version: str, again: bool = False) -> Mapping[str, ApiResource]:
        self.discovered.append(version)
        definitions = [
            row
            for row in self.objects.values()
            if row.get("kind") == "CustomResourceDefinition" and "spec" in row
        ]
        return kinds_in(discovery(version, definitions if self.established() else ()))

    def get(self, path: str) -> dict[str, Any] | None:
        self.asked.append(path)
        return copy.deepcopy(self.objects.get(path))

    def serves(self, version: str) -> bool:
        return any(path.startswith(version) for path in self.objects)

    def items(self, path: str, _cut: Any = None, /, **query: str) -> list[dict[str, Any]]:
        self.at_list()
        node = query.get("fieldSelector", "").removeprefix("spec.nodeName=")
        kind = path.rpartition("/")[2]
        found = [row for key, row in self.objects.items() if key.split("/")[-2] == kind]
        asked = [row.partition("=") for row in query.get("labelSelector", "").split(",") if row]
        found = [
            row
            for row in found
            for labels in [row["metadata"].get("labels") or {}]
            # Many objects of tests have no labels: those are of every value.
            if all(
                labels.get(key, value) == value if equals else key in labels for key, equals, value in asked
            )
        ]
        return copy.deepcopy([row for row in found if not node or row["spec"].get("nodeName") == node])

    def patch(
        self, path: str, body: Any, manager: str, kind: str = "merge", dry_run: bool = False
    ) -> dict[str, Any]:
        real, path = self.change("PATCH", path, dry_run), path.removesuffix("/status")
        if real:
            if kind == STRATEGIC_PATCH:
                (row,) = body["status"]["conditions"]
                status = self.objects[path].setdefault("status", {})
                others = [old for old in status.get("conditions", []) if old["type"] != row["type"]]
                status["conditions"] = others + ([] if "$patch" in row else [row])
            elif isinstance(body, list):
                assert body[1]["value"] == self.objects[path]["metadata"]["resourceVersion"]
                self.objects[path]["metadata"]["managedFields"] = body[0]["value"]
            else:
                self.must_be_version(path, (body.get("metadata") or {}).get("resourceVersion"))
                for part in ("metadata", "spec", "data"):
                    if part in body:
                        _merge(self.objects[path].setdefault(part, {}), body[part])
            self.touch(path)
        return copy.deepcopy(self.objects[path])

    def apply(self, path: str, body: dict[str, Any], manager: str, dry_run: bool = False) -> dict[str, Any]:
        real = self.change("APPLY", path, dry_run)
        before = self.objects.get(path)
        after = copy.deepcopy(before or {"metadata": {"resourceVersion": "0"}})
        for key, value in body.items():
            if key == "metadata":
                after["metadata"].update(value)
            else:
                after[key] = value
        rows = [{"manager": manager, "operation": "Apply", "fieldsV1": {"f:spec": {}}}]
        if before is None:
            after["metadata"]["managedFields"] = rows
        if real:
            self.objects[path] = after
            if after != before:
                self.touch(path)
        return copy.deepcopy(self.objects[path] if real else after)

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        place = f"{path}/{body['metadata']['name']}"
        if place in self.objects:
            raise ApiRefused(f"'{place}' is there.", "", CONFLICT)
        if self.change("POST", place, False):
            self.objects[place] = copy.deepcopy(body)
            self.touch(place)
        return copy.deepcopy(self.objects[place])

    def must_be_version(self, path: str, version: str | None) -> None:
        if path not in self.objects:
            raise ApiRefused(f"'{path}' is not there.", "", MISSING)
        there = self.objects[path]["metadata"].get("resourceVersion")
        if version is not None and there is not None and version != there:
            raise ApiRefused(f"'{path}' was changed.", "", CONFLICT)

    def touch(self, path: str) -> None:
        metadata = self.objects[path]["metadata"]
        metadata["resourceVersion"] = str(int(metadata.get("resourceVersion", "0")) + 1)

    def delete(
        self, path: str, grace_s: int | None = None, dry_run: bool = False, uid: str | None = None
    ) -> bool:
        there = path in self.objects
        if uid and there and self.objects[path]["metadata"].get("uid") != uid:
            return False
        if "/pods/" in path:
            self.graces.add(grace_s)
        if self.change("DELETE", path, dry_run):
            self.objects.pop(path, None)
        return there

    def evict(self, namespace: str, pod: str) -> None:
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}"
        self.refuse("EVICT", path)
        self.done.append(("EVICT", path))
        del self.objects[path]


def _merge(there: dict[str, Any], change: dict[str, Any]) -> None:
    for key, value in change.items():
        if value is None:
            there.pop(key, None)
        elif isinstance(value, dict):
            _merge(there.setdefault(key, {}), value)
        else:
            there[key] = value


@pytest.fixture
def memory() -> type[Memory]:
    return Memory


@pytest.fixture(scope="module")
def lookups() -> Iterator[None]:
    """Ansible's own lookups, which only its loader finds. Other tests import the collection without it."""
    before = {name: module for name, module in sys.modules.items() if name.startswith("ansible_collections")}
    init_plugin_loader([])
    yield
    AnsibleCollectionConfig.collection_finder._remove()
    for name in [name for name in sys.modules if name.startswith("ansible_collections")]:
        del sys.modules[name]
    sys.modules.update(before)
