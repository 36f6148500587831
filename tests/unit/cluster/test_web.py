"""Ways to Prometheus and Alertmanager."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusmith.cluster.api import Cluster
from gpusmith.cluster.web import ALERTMANAGER, PROMETHEUS, Addressed, Prometheus, Proxied, Silent
from gpusmith.errors import ToolError
from gpusmith.names import MONITORING_NAMESPACE
from tests.unit.cluster.conftest import Server

Connect = Callable[..., Cluster]
GOOD = {"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": [1, "1"]}]}}


def test_a_query_goes_through_the_proxy_of_the_service(server: Server, connect: Connect) -> None:
    server.will((200, {}, GOOD))
    web = Proxied(connect(server.url), MONITORING_NAMESPACE, PROMETHEUS)
    assert Prometheus(web).query("up") == [{"metric": {}, "value": [1, "1"]}]
    proxy = (
        "/api/v1/namespaces/gpusmith-monitoring/services/http%3Aprometheus%3A9090/proxy/api/v1/query?query=up"
    )
    assert [
        (method, path.replace("http:", "http%3A").replace("s:9090", "s%3A9090"))
        for method, path in server.seen
    ] == [("GET", proxy)]


REFUSED = {"kind": "Status", "message": 'User "u" cannot get services/proxy', "code": 403}
GONE = {"kind": "Status", "message": 'services "prometheus" not found', "code": 404}


@pytest.mark.parametrize(
    ("answers", "error", "says"),
    [
        ([(403, {}, REFUSED)] * 2, ToolError, "kubectl apply -f validation/rbac-monitoring.yml"),
        ([(404, {}, GONE)], Silent, 'services "prometheus" not found'),
        ([(200, {}, b"<html>")], Silent, "something else than JSON: <html>"),
    ],
    ids=["rights", "no service", "a page"],
)
def test_who_may_not_ask_is_told_apart_from_what_does_not_answer(
    server: Server, connect: Connect, answers: Any, error: type[Exception], says: str
) -> None:
    server.will(*answers)
    with pytest.raises(error) as caught:
        Proxied(connect(server.url), MONITORING_NAMESPACE, PROMETHEUS).get("/api/v1/rules")
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "says"),
    [(None, "does not answer"), ((503, {}, b"starting"), "answers with status 503: starting")],
    ids=["hangs up", "starts"],
)
def test_a_server_with_an_address_is_asked_there(server: Server, answer: Any, says: str) -> None:
    server.will((200, {}, GOOD), answer)
    web = Addressed(f"{server.url}/prometheus/")
    assert web.get("/api/v1/query", query="up") == GOOD
    assert server.seen == [("GET", "/prometheus/api/v1/query?query=up")]
    with pytest.raises(Silent, match=says):
        web.get("/api/v1/rules")


def test_the_suite_may_ask_both_services_and_no_other(root: Path) -> None:
    role, binding = yaml.safe_load_all((root / "validation" / "rbac-monitoring.yml").read_text())
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == MONITORING_NAMESPACE
    assert role["rules"] == [
        {
            "apiGroups": [""],
            "resources": ["services/proxy"],
            "resourceNames": [PROMETHEUS, ALERTMANAGER],
            "verbs": ["get"],
        }
    ]
