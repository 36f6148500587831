"""Fields of others in our objects are handed to the apply that follows, by few requests."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, cast

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils.cluster import (
    ClusterApi,
    ClusterError,
    ClusterRefusedError,
)
from ansible_collections.gpusmith.gpu.plugins.modules import foreign_fields

PLUGIN: dict[str, Any] = {
    "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "plugin", "namespace": "ours"},
}  # fmt: skip
CLASS: dict[str, Any] = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "nvidia"},
    "handler": "nvidia",
}
CONFIG: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "c", "namespace": "ours"},
}
SPACE: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ours"}}
PLUGIN_PATH = "/apis/apps/v1/namespaces/ours/daemonsets/plugin"
CLASS_PATH = "/apis/node.k8s.io/v1/runtimeclasses/nvidia"
CONFIG_PATH = "/api/v1/namespaces/ours/configmaps/c"


def stored(wanted: dict[str, Any], ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """An object in the cluster, with what we and somebody else set."""
    rows = [
        {"manager": "gpusmith", "operation": "Apply", "fieldsV1": ours},
        {"manager": "kubectl-edit", "operation": "Update", "fieldsV1": theirs},
    ]
    return {**wanted, "metadata": {**wanted["metadata"], "resourceVersion": "7", "managedFields": rows}}


class Api:
    """A cluster in memory; the first patches are refused with these codes."""

    def __init__(self, objects: dict[str, dict[str, Any]], *refusals: int) -> None:
        self.objects = objects
        self.refusals = list(refusals)
        self.read_paths: list[str] = []
        self.written: list[tuple[str, bool]] = []

    def read(self, path: str) -> dict[str, Any] | None:
        self.read_paths.append(path)
        return self.objects.get(path)

    def replace_managed_fields(
        self, path: str, rows: list[dict[str, Any]], version: str, dry_run: bool
    ) -> None:
        if self.refusals:
            raise ClusterRefusedError("The API server refused.", self.refusals.pop(0))
        assert version == self.objects[path]["metadata"]["resourceVersion"]
        self.written.append((path, dry_run))
        if not dry_run:
            self.objects[path]["metadata"]["managedFields"] = rows


def cluster(*refusals: int) -> Api:
    return Api(
        {
            PLUGIN_PATH: stored(PLUGIN, {"f:spec": {"f:a": {}}}, {"f:spec": {"f:hostPID": {}}}),
            CLASS_PATH: stored(CLASS, {"f:handler": {}}, {"f:handler": {}}),
        },
        *refusals,
    )


def run(api: Api, check: bool = False) -> dict[str, list[str]]:
    found: dict[str, list[str]] = foreign_fields.run(
        cast(ClusterApi, api), [SPACE, PLUGIN, CLASS, CONFIG], check
    )
    return found


def test_only_what_others_set_is_taken_over_and_a_second_run_does_nothing() -> None:
    api = cluster()
    assert run(api) == {"DaemonSet 'ours/plugin'": ["spec.hostPID"]}
    assert api.read_paths == [CLASS_PATH, PLUGIN_PATH, CLASS_PATH, CONFIG_PATH]
    assert api.written == [(PLUGIN_PATH, False)]
    assert run(api) == {}
    assert len(api.written) == 1


def test_a_class_with_another_handler_is_refused_before_anything_is_changed() -> None:
    api = cluster()
    api.objects[CLASS_PATH]["handler"] = "runc"
    with pytest.raises(
        ClusterError, match=r"handler 'runc', not 'nvidia'.*kubectl delete runtimeclass nvidia"
    ):
        run(api)
    assert api.written == []


def test_check_mode_has_the_patch_tried_out() -> None:
    api = cluster()
    assert run(api, check=True) == run(api, check=True) != {}
    assert {dry for _, dry in api.written} == {True}


def test_an_object_that_changed_meanwhile_is_read_again() -> None:
    api = cluster(409, 409)
    assert run(api) == {"DaemonSet 'ours/plugin'": ["spec.hostPID"]}
    assert api.read_paths.count(PLUGIN_PATH) == 3


@pytest.mark.parametrize("refusals", [[403], [409] * foreign_fields.TRIES])
def test_a_refusal_that_stays_is_no_silence(refusals: list[int]) -> None:
    with pytest.raises(ClusterRefusedError):
        run(cluster(*refusals))


def test_every_kind_that_the_role_applies_is_looked_at_or_passed_over_on_purpose(root: Path) -> None:
    text = "".join(path.read_text() for path in (root / "roles/gpu_operands/templates").iterdir())
    kinds = set(re.findall(r"^kind: (\w+)", text, re.MULTILINE))
    assert kinds - set(foreign_fields.PLURALS) == {"Namespace", "ServiceAccount", "CustomResourceDefinition"}


# --- the request itself ----------------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[ClusterApi, list[dict[str, Any]]]]:
    """An API server that remembers patches and answers that they conflict."""
    seen: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_PATCH(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.append({"path": self.path, "type": self.headers["Content-Type"], "body": body})
            self.send_response(409)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    http = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        f"clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{http.server_port}'}}}}]\n"
        "users: [{name: u, user: {}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n"
    )
    yield ClusterApi(str(kubeconfig)), seen
    http.shutdown()
    http.server_close()


def test_owners_are_replaced_only_in_the_version_that_was_read(
    server: tuple[ClusterApi, list[dict[str, Any]]],
) -> None:
    api, seen = server
    with pytest.raises(ClusterRefusedError) as raised:
        api.replace_managed_fields("/apis/x", [{"manager": "m"}], "7", dry_run=True)
    assert raised.value.status == foreign_fields.CONFLICT
    assert seen == [
        {
            "path": "/apis/x?dryRun=All",
            "type": "application/json-patch+json",
            "body": [
                {"op": "replace", "path": "/metadata/managedFields", "value": [{"manager": "m"}]},
                {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
            ],
        }
    ]
