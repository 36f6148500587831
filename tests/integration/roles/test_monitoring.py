"""Role gpu_monitoring in real plays, beside an API server that keeps what it is sent: no kubelet runs what is applied."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.plugins.plays import play
from tests.unit.cluster.conftest import KUBECONFIG
from tests.unit.fake_cluster import discovery

PARTS = ("dcgm_exporter", "kube_state_metrics", "prometheus", "alertmanager", "dashboards")
ALL = {f"gpu_monitoring_{part}": "managed" for part in PARTS}
QUERY = "/api/v1/namespaces/gpusmith-monitoring/services/http:prometheus:9090/proxy/api/v1/query"
UP = [{"job": "dcgm-exporter", "node": "gpu-1"}, {"job": "kube-state-metrics"}, {"job": "prometheus"}]
RECEIVERS: dict[str, Any] = {
    "route": {"receiver": "us"},
    "receivers": [{"name": "us", "webhook_configs": [{"url": "http://geheim"}]}],
}


class Api(ThreadingHTTPServer):
    """Objects by path, and a Prometheus behind the proxy whose targets are all up.

    Attributes:
        objects: that are there.
        asked: method and path of every request.
        up: targets that answer Prometheus.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, dict[str, Any]] = {}
        self.asked: list[tuple[str, str]] = []
        self.up = UP

    def answer(self, method: str, path: str, sent: bytes) -> dict[str, Any] | None:
        self.asked.append((method, path))
        if path == QUERY:
            return {"data": {"result": [{"metric": metric, "value": [0, "1"]} for metric in self.up]}}
        if method == "DELETE":
            return self.objects.pop(path, None)
        if method == "PATCH":
            status = {"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "observedGeneration": 1}
            self.objects[path] = {**yaml.safe_load(sent), "status": status}
        if path in self.objects:
            return self.objects[path]
        parts = path.split("/")
        if len(parts) == (3 if parts[1] == "api" else 4):
            return discovery(path.removeprefix("/apis/").removeprefix("/api/"))
        if path.endswith("/pods"):
            ready = {"conditions": [{"type": "Ready", "status": "True"}]}
            return {"items": [{"metadata": {"name": "e"}, "spec": {"nodeName": "gpu-1"}, "status": ready}]}
        kind = parts[-1]
        named = [row for there, row in self.objects.items() if there.split("/")[-2] == kind]
        return (
            {"items": named}
            if kind
            in (
                "daemonsets",
                "deployments",
                "statefulsets",
                "runtimeclasses",
                "persistentvolumeclaims",
                "events",
            )
            else None
        )


class _Handler(BaseHTTPRequestHandler):
    server: Api

    def reply(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found = self.server.answer(self.command, self.path.partition("?")[0], sent)
        text = json.dumps({"kind": "Status", "message": "not found"} if found is None else found).encode()
        self.send_response(404 if found is None else 200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_PATCH = do_DELETE = reply  # noqa: N815 - names of the base class

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def api() -> Iterator[Api]:
    made = Api()
    threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def run(folder: Path, api: Api, *words: str, tasks_from: str = "main", **given: Any) -> tuple[int, str]:
    """A play with the role on one node."""
    path = folder / "kubeconfig"
    path.write_text(KUBECONFIG.format(server=f"http://127.0.0.1:{api.server_port}"))
    role = {"name": "gpusmith.gpu.gpu_monitoring", "tasks_from": tasks_from}
    row = {"gpusmith_kubeconfig": str(path), "gpu_monitoring_ready_timeout_s": 2, **given}
    return play(
        folder, {"gpu-1": row}, {"tasks": [{"name": "Watch", "ansible.builtin.import_role": role}]}, *words
    )


def test_without_any_part_the_cluster_is_not_asked(tmp_path: Path, api: Api) -> None:
    status, output = run(tmp_path, api)
    assert status == 0, output
    assert "Nothing to do on 1 host" in output
    assert api.asked == []


def test_what_is_missing_fails_after_a_playbook_could_validate(tmp_path: Path, api: Api) -> None:
    """On a small cluster Prometheus waits for the new node, which is free when it is validated."""
    api.up = [metric for metric in UP if metric["job"] != "prometheus"]
    status, output = run(tmp_path, api, tasks_from="deploy", **ALL)
    assert status == 0, output
    status, output = run(tmp_path, api, **ALL)
    assert status == 2
    assert "Prometheus has no target of job 'prometheus'" in output
    tasks = yaml.safe_load(Path("playbooks/provision_nodes.yml").read_text())[-1]["tasks"]
    roles = [row.get("ansible.builtin.import_role", {}) for row in tasks]
    order = [(role["name"].rpartition(".")[2], role.get("tasks_from")) for role in roles if role]
    assert order.index(("node_stamp", None)) < order.index(("gpu_monitoring", "verdict"))


def test_it_is_applied_once_and_leaves_nothing(tmp_path: Path, api: Api) -> None:
    status, output = run(tmp_path, api, "-vvv", **ALL, gpu_monitoring_alertmanager_config=RECEIVERS)
    assert status == 0, output
    assert "the cluster: changed by gpu_monitoring" in output
    assert (
        "the cluster: Prometheus opens at http://localhost:9090 with 'kubectl -n gpusmith-monitoring"
        in output
    )
    assert "Its values are in an emptyDir" in output
    secret = api.objects["/api/v1/namespaces/gpusmith-monitoring/secrets/alertmanager"]["data"][
        "alertmanager.yml"
    ]
    assert [text for text in ("geheim", secret) if text in output] == [], "passwords of receivers"
    rules = "/api/v1/namespaces/gpusmith-monitoring/configmaps/prometheus-rules"
    text = "".join(api.objects[rules]["data"].values())
    assert "{{ $labels.node }}" in text, "what Prometheus fills in"
    assert 'xid!~"13|31|43|45|68|109"' in text
    assert text.count("GpusmithExporterDown\n") == 2

    status, output = run(tmp_path, api, **ALL, gpu_monitoring_alertmanager_config=RECEIVERS)
    assert "Nothing to do on 1 host" in output, output

    # Without Alertmanager and the exporter, the others stay.
    gone = {"gpu_monitoring_alertmanager": "none", "gpu_monitoring_dcgm_exporter": "none"}
    status, output = run(tmp_path, api, **{**ALL, **gone})
    assert status == 0, output
    assert "".join(api.objects[rules]["data"].values()).count("GpusmithExporterDown\n") == 1
    assert [path for path in api.objects if path.endswith("/alertmanager")] == []
    assert rules in api.objects

    status, output = run(tmp_path, api, tasks_from="remove")
    assert status == 0, output
    assert api.objects == {}
    assert "Nothing to do" in run(tmp_path, api, tasks_from="remove")[1]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"gpu_monitoring_disabled_alerts": ["GpusmithGpuXidd"]}, "names alert 'GpusmithGpuXidd', which there is not"),
        ({"gpu_monitoring_prometheus": "existing"}, "the cluster has no Prometheus Operator"),
        ({"gpu_monitoring_prometheus": "existing", "gpu_monitoring_prometheus_url": "http://127.0.0.1:1"},
         "'gpu_monitoring_prometheus_url' is 'http://127.0.0.1:1', where no Prometheus answers"),
        ({"gpu_monitoring_alertmanager": "existing", "gpu_monitoring_alertmanager_url": "http://127.0.0.1:1"},
         "'gpu_monitoring_alertmanager_url' is 'http://127.0.0.1:1', where no Alertmanager answers"),
        ({"gpu_monitoring_dcgm_exporter": "existing"}, "'gpu_monitoring_dcgm_exporter' is 'existing', and no workload's pods"),
        ({"gpu_monitoring_dcgm_exporter": "maybe"}, "value of gpu_monitoring_dcgm_exporter must be one of"),
    ],
)  # fmt: skip
def test_what_could_not_work_is_refused_before_any_change(
    tmp_path: Path, api: Api, given: dict[str, Any], says: str
) -> None:
    status, output = run(tmp_path, api, **{**ALL, **given})
    assert status != 0
    assert says in output
    assert {method for method, _ in api.asked} <= {"GET"}


def test_another_namespace_comes_after_the_former_one_is_gone(tmp_path: Path, api: Api) -> None:
    status, output = run(tmp_path, api, **ALL, gpu_monitoring_namespace="old")
    assert "kubectl -n old" in output
    before = dict(api.objects)
    status, output = run(tmp_path, api, **ALL)
    assert status == 2
    assert "playbooks/remove_monitoring.yml -e gpu_monitoring_namespace=old" in output
    assert api.objects == before
    status, output = run(tmp_path, api, "-e", "gpu_monitoring_namespace=old", tasks_from="remove", **ALL)
    assert status == 0, output
    status, output = run(tmp_path, api, **ALL)
    assert status == 0, output


def test_check_mode_changes_nothing_and_names_what_it_would_make(tmp_path: Path, api: Api) -> None:
    status, output = run(tmp_path, api, "--check", **ALL)
    assert status == 0, output
    assert "Deployment 'gpusmith-monitoring/prometheus'" in output
    assert api.asked
    assert QUERY not in [path for _, path in api.asked]
