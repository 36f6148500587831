"""Asking Prometheus and Alertmanager: through the API server's proxy of services, or by an address."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol

from gpusmith.cluster.api import ApiRefused, Cluster
from gpusmith.cluster.retries import Patience
from gpusmith.errors import GpusmithError, ToolError

PROMETHEUS, ALERTMANAGER = "http:prometheus:9090", "http:alertmanager:9093"
"""Services of role gpu_monitoring as the proxy takes them; validation/rbac-monitoring.yml names them."""
PATIENCE = Patience(10.0, 10.0)
"""Of a pod that is replaced."""
TIMEOUT_S = 30.0
MOST_SAID = 200
RIGHTS = "Give the suite's account the rights to ask it: kubectl apply -f validation/rbac-monitoring.yml"

Query = Mapping[str, str]


class Silent(GpusmithError):  # noqa: N818 - it says what was found
    """What was asked does not answer as it should."""


class Web(Protocol):
    """Something that answers with JSON over HTTP."""

    def get(self, path: str, /, **query: str) -> Any:
        """The answer.

        Raises:
            Silent: there is none.
            ToolError: the way to it is broken.
        """


@dataclass(frozen=True)
class Proxied:
    """A Service of the cluster, asked by way of the API server: no port is opened for that."""

    cluster: Cluster
    namespace: str
    service: str
    patience: Patience = PATIENCE
    prefix: str = ""

    def get(self, path: str, /, **query: str) -> Any:
        """As of Web."""
        whole = f"/api/v1/namespaces/{self.namespace}/services/{self.service}/proxy{self.prefix}{path}"
        try:
            return _read(self.cluster.call("GET", whole, query=query, patience=self.patience))
        except ApiRefused as error:
            if error.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
                raise ToolError(error.message, RIGHTS) from error
            raise Silent(error.message) from error


@dataclass(frozen=True)
class Addressed:
    """A server that the controller reaches."""

    url: str

    def get(self, path: str, /, **query: str) -> Any:
        """As of Web."""
        import urllib3

        whole = self.url.rstrip("/") + path
        if not whole.startswith(("http://", "https://")):
            raise Silent(f"'{whole}' begins with neither http:// nor https://")
        try:
            answer = urllib3.request("GET", whole, fields=query, timeout=TIMEOUT_S, retries=False)
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            raise Silent(f"'{whole}' does not answer: {' '.join(str(error).split())[:MOST_SAID]}") from error
        text = answer.data.decode(errors="replace")
        if answer.status != HTTPStatus.OK:
            raise Silent(f"'{whole}' answers with status {answer.status}: {text[:MOST_SAID]}")
        return _read(text)


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise Silent(f"It answers with something else than JSON: {text[:MOST_SAID]}") from error


class Prometheus:
    """Prometheus' API, which wraps what it answers.

    Args:
        web: the way to it.
    """

    def __init__(self, web: Web) -> None:
        self._web = web

    def get(self, path: str, /, **query: str) -> Any:
        """The answer's data."""
        return self._web.get(f"/api/v1/{path}", **query)["data"]

    def query(self, text: str) -> list[dict[str, Any]]:
        """The series of an instant query: labels as 'metric', value as 'value'."""
        found: list[dict[str, Any]] = self.get("query", query=text)["result"]
        return found
