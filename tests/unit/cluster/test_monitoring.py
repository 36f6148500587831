"""Monitoring in a cluster: what is refused before any change, and what is waited for."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
import urllib3

from gpusmith.cluster import monitoring
from gpusmith.cluster.api import ApiRefused
from tests.unit.cluster.conftest import Memory

OURS = {"app.kubernetes.io/managed-by": "gpusmith"}
SPACE = "/apis/apps/v1/namespaces/m"


def exporter(
    namespace: str, image: str = "nvcr.io/nvidia/k8s/dcgm-exporter:4.2.3", **labels: str
) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": image}]}
    return {
        "metadata": {"name": "e", "namespace": namespace, "labels": labels},
        "spec": {"template": {"spec": spec}},
    }


@pytest.mark.parametrize(
    ("there", "says"),
    [
        ([], []),
        ([exporter("ours", **OURS), exporter("x", "registry.example.com/other:1")], []),
        ([exporter("gpu-operator")], ["'gpu-operator/e' is a dcgm-exporter of somebody else."]),
        ([exporter("ours")], ["'ours/e' is a dcgm-exporter of somebody else."]),
        ([exporter("former", **OURS)], ["'former/e' is a dcgm-exporter that gpusmith made under another"]),
    ],
)  # fmt: skip
def test_a_second_exporter_is_named(there: list[dict[str, Any]], says: list[str]) -> None:
    found = [refusal.message for refusal in monitoring.second_exporters(there, "ours")]
    assert [message[: len(said)] for message, said in zip(found, says, strict=True)] == says


ASKED = {
    "prometheus": "existing", "prometheus_url": "", "alertmanager": "none", "alertmanager_url": "",
}  # fmt: skip


@pytest.mark.parametrize(
    ("given", "operator", "says"),
    [
        ({}, False, "the cluster has no Prometheus Operator"),
        ({}, True, ""),
        ({"prometheus": "managed", "alertmanager": "existing"}, False, "'gpu_monitoring_alertmanager_url' is empty"),
        ({"prometheus": "managed", "alertmanager": "existing", "alertmanager_url": "http://am"}, False, ""),
        ({"alertmanager": "existing"}, True, ""),
        ({"prometheus": "none"}, False, ""),
    ],
)  # fmt: skip
def test_parts_that_nobody_would_read_are_refused(given: dict[str, str], operator: bool, says: str) -> None:
    found = monitoring.refuse_impossible({**ASKED, **given}, operator)
    assert bool(found) is bool(says)
    assert says in " ".join(map(str, found))


@pytest.mark.parametrize(
    ("url", "status", "answer", "says"),
    [
        ("http://p:9090/", 200, b'{"status": "success", "data": {"result": []}}', ""),
        ("http://p:9090", 200, b"<html>", "where no Prometheus answers: It answers with something else than JSON: <html>."),
        ("http://p:9090", 200, b"[]", "an answer that no Prometheus gives. Correct"),
        ("http://p:9090", 0, b"refused", "does not answer: refused. Correct"),
        ("http://p:9090", 401, b"", "answers with status 401. Correct"),
        ("p:9090", 200, b"", "begins with neither http:// nor https://. Correct"),
    ],
)  # fmt: skip
def test_an_address_where_no_prometheus_answers_is_refused(
    url: str, status: int, answer: bytes, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def opened(_method: str, address: str, fields: Any, **_more: Any) -> Any:
        asked.append((address, fields))
        if not status:
            raise urllib3.exceptions.HTTPError(answer.decode())
        return SimpleNamespace(status=status, data=answer)

    monkeypatch.setattr(urllib3, "request", opened)
    found = monitoring.refuse_impossible({**ASKED, "prometheus_url": url}, operator=False)
    assert says in " ".join(map(str, found))
    assert bool(found) is bool(says)
    assert asked == ([("http://p:9090/api/v1/query", {"query": "vector(1)"})] if ":/" in url else [])


STATUS = '{"config": {"original": ""}, "versionInfo": {}}'


class Services(Memory):
    """A cluster whose API server asks Services, of which some answer."""

    def __init__(self, answers: str | ApiRefused, *services: str, pods: bool = True) -> None:
        super().__init__(
            {
                f"/api/v1/namespaces/{name.replace('/', '/services/')}": {
                    "spec": {"selector": {"app": "am"} if pods else {}}
                }
                for name in services
            }
        )
        self.answers = answers

    def call(self, method: str, path: str, **_more: Any) -> str:
        self.asked.append(path)
        if isinstance(self.answers, ApiRefused):
            raise self.answers
        return self.answers


DOWN = ApiRefused("no endpoints available", "", 503)
PROXY = "/api/v1/namespaces/a/services/{}/proxy{}/api/v2/status"


@pytest.mark.parametrize(
    ("url", "site", "asked", "says"),
    [
        ("http://am.a:9093", Services(STATUS, "a/am"), PROXY.format("http:am:9093", ""), ""),
        ("https://am.a.svc.cluster.local/x/", Services(STATUS, "a/am"), PROXY.format("https:am:443", "/x"), ""),
        ("http://am", Services(STATUS, "m/am"), "/api/v1/namespaces/m/services/http:am:80/proxy/api/v2/status", ""),
        ("http://am.a:9093", Services(DOWN, "a/am"), PROXY.format("http:am:9093", ""), "answers: no endpoints available."),
        ("http://am.a:9093", Services("[]", "a/am"), PROXY.format("http:am:9093", ""), "an answer that no Alertmanager gives"),
        ("http://am.a:9093", Services(ApiRefused("no", "", 403), "a/am"), PROXY.format("http:am:9093", ""), ""),
        # What is outside of the cluster has a Service at most.
        ("http://am.a:9093", Services(DOWN, "a/am", pods=False), "/api/v1/namespaces/a/services/am", ""),
        ("http://am.a:x", Services(STATUS, "a/am"), "/api/v1/namespaces/a/services/am", "Port could not be cast"),
        ("http://am.a:9093", Services(STATUS), "http://am.a:9093/api/v2/status", "does not answer: refused. Correct"),
        ("http://am.a.example.com", Services(STATUS, "a/am"), "http://am.a.example.com/api/v2/status", "not answer: refused"),
    ],
)  # fmt: skip
def test_an_alertmanager_that_pods_would_not_reach_is_refused(
    url: str, site: Services, asked: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(_method: str, address: str, **_more: Any) -> Any:
        site.asked.append(address)
        raise urllib3.exceptions.HTTPError("refused")

    monkeypatch.setattr(urllib3, "request", opened)
    found = monitoring.refuse_deaf(site.cluster, url, "m")
    assert says in " ".join(map(str, found))
    assert bool(found) is bool(says)
    assert site.asked[-1] == asked


def workload(kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "m"}}


def pod(node: str, ready: bool = True) -> dict[str, Any]:
    state = {"type": "Ready", "status": str(ready)}
    return {
        "metadata": {"name": node, "namespace": "m"},
        "spec": {"nodeName": node},
        "status": {"conditions": [state], "phase": "Running"},
    }


class Site(Memory):
    """A cluster with workloads and a Prometheus."""

    def __init__(
        self, ready: int = 1, generation: int = 1, pods: tuple[dict[str, Any], ...] = (), old: int = 0
    ) -> None:
        numbers = {"replicas": 1 + old, "updatedReplicas": 1, "readyReplicas": ready}
        status = {"observedGeneration": 1, **numbers}
        super().__init__(
            {
                f"{SPACE}/deployments/prometheus": {
                    "metadata": {"generation": generation},
                    "status": status,
                },
                f"{SPACE}/daemonsets/dcgm-exporter": {
                    "metadata": {"generation": 1},
                    "status": {"observedGeneration": 1},
                },
                **{f"/api/v1/namespaces/m/pods/{row['metadata']['name']}": row for row in pods},
            }
        )
        self.up: list[tuple[str, str, str]] | ApiRefused = []

    def call(self, method: str, path: str, query: dict[str, str], **_more: Any) -> str:
        assert (method, query) == ("GET", {"query": "up"})
        assert path == "/api/v1/namespaces/m/services/http:prometheus:9090/proxy/api/v1/query"
        if isinstance(self.up, ApiRefused):
            raise self.up
        rows = [{"metric": {"job": job, "node": node}, "value": [0, value]} for job, node, value in self.up]
        return json.dumps({"status": "success", "data": {"result": rows}})


OBJECTS = [workload("Deployment", "prometheus"), workload("DaemonSet", "dcgm-exporter")]
UP = [("prometheus", "", "1"), ("dcgm-exporter", "gpu-1", "1"), ("dcgm-exporter", "gpu-2", "1")]
PODS = (pod("gpu-1"), pod("gpu-2"), pod("gpu-3", ready=False))


def waited(site: Site, namespace: str = "m") -> tuple[str, dict[str, str]]:
    found = monitoring.wait_for(
        site.cluster,
        OBJECTS,
        namespace,
        ["prometheus", "dcgm-exporter"],
        ["gpu-1", "gpu-2"],
        0.0,
        lambda _: None,
    )
    return found.of_all, dict(found.of_nodes)


@pytest.mark.parametrize(
    ("site", "up", "says"),
    [
        (Site(pods=PODS), UP, ""),
        (Site(generation=2, pods=PODS), UP, "Deployment 'm/prometheus' is not there yet"),
        (Site(ready=0, pods=PODS), UP, "Deployment 'm/prometheus' has no ready pod"),
        (Site(old=1, pods=PODS), UP, "Deployment 'm/prometheus' has no ready pod of what it is now"),
        (Site(pods=PODS), UP[1:], "Prometheus has no target of job 'prometheus'"),
        (Site(pods=PODS), ApiRefused("no endpoints", "", 503), "Prometheus does not answer: no endpoints"),
    ],
)  # fmt: skip
def test_the_run_waits_for_pods_and_then_for_values(site: Site, up: Any, says: str) -> None:
    site.up = up
    said, of_nodes = waited(site)
    assert says in said
    assert ("Look at 'kubectl -n m get pods -o wide'" in said) is bool(says)
    assert of_nodes == {}


@pytest.mark.parametrize(
    ("pods", "up", "node", "says"),
    [
        (PODS[1:], UP, "gpu-1", "DaemonSet 'm/dcgm-exporter' has no ready pod on gpu-1"),
        ((pod("gpu-1", ready=False), *PODS[1:]), UP, "gpu-1", "has no ready pod on gpu-1: it is Running"),
        (PODS, UP[:2], "gpu-2", "Prometheus gets no values from the exporter of gpu-2"),
        (PODS, [*UP[:2], ("dcgm-exporter", "gpu-2", "0")], "gpu-2", "gets no values from the exporter of gpu-2"),
    ],
)  # fmt: skip
def test_a_node_that_is_not_measured_is_no_matter_of_the_others(
    pods: tuple[dict[str, Any], ...], up: Any, node: str, says: str
) -> None:
    site = Site(pods=pods)
    site.up = up
    said, of_nodes = waited(site)
    assert (said, list(of_nodes)) == ("", [node])
    assert says in of_nodes[node]


def test_a_prometheus_of_others_is_not_asked() -> None:
    assert waited(Site(pods=PODS), namespace="") == ("", {})
