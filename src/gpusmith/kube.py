"""The few calls to the Kubernetes API that the suite needs, as plain JSON data. Lists are read in pages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpusmith.errors import InputError, ToolError

PAGE_SIZE = 500
CONNECT_TIMEOUT_S = 10
REQUEST_TIMEOUT_S = 30
CONNECTIONS = 64

Object = dict[str, Any]


class ApiRefused(ToolError):  # noqa: N818
    """The API server answered, with an error.

    Attributes:
        status: HTTP status.
    """

    def __init__(self, message: str, hint: str, status: int) -> None:
        super().__init__(message, hint)
        self.status = status


class Cluster:
    """One cluster, by a kubeconfig.

    Raises:
        InputError: the kubeconfig is missing or unusable.
    """

    def __init__(self, kubeconfig: str) -> None:
        from kubernetes import client, config

        path = Path(kubeconfig).expanduser()
        if not path.is_file():
            raise InputError(
                f"Kubeconfig '{path}' does not exist.",
                "Set 'gpusmith_kubeconfig', or 'validation_kubeconfig', to one of this cluster.",
            )
        _must_be_kubeconfig(path)
        settings = client.Configuration()
        try:
            config.load_kube_config(config_file=str(path), client_configuration=settings)
        except Exception as error:  # of the client, yaml, base64 and files
            raise InputError(
                f"Kubeconfig '{path}' cannot be used: {error}", "Fetch it again from the cluster."
            ) from error
        settings.connection_pool_maxsize = CONNECTIONS
        # A dead API server must be named soon, and not after three silent tries.
        settings.retries = False
        self.kubeconfig = str(path)
        self._client = client.ApiClient(settings)

    def call(
        self, method: str, path: str, body: Object | None = None, query: Mapping[str, str] | None = None
    ) -> str:
        """One request; the answer's text.

        Raises:
            ApiRefused: the API server answered with an error.
            ToolError: it did not answer.
        """
        from kubernetes.client.exceptions import ApiException

        kind = "application/json"
        request = self._client.param_serialize(
            method,
            path,
            query_params=list((query or {}).items()),
            header_params={"Accept": "application/json, text/plain", "Content-Type": kind},
            body=body,
            auth_settings=["BearerToken"],
        )
        try:
            answer = self._client.call_api(*request, _request_timeout=(CONNECT_TIMEOUT_S, REQUEST_TIMEOUT_S))
            data = answer.read()
            status, reason = answer.status, answer.reason
        except ApiException as error:
            if not error.status:  # no answer: the client says so of a certificate that it does not trust
                raise self._no_answer(error) from error
            data, status, reason = (error.body or b""), int(error.status), error.reason
        except Exception as error:  # every kind of broken connection, from several libraries
            raise self._no_answer(error) from error
        text = data.decode(errors="replace") if isinstance(data, bytes) else str(data)
        if status >= 400:
            raise ApiRefused(
                f"The API server refused {method} '{path}': {status} {reason}. {_message(text)}".strip(),
                hint_for(status, self.kubeconfig),
                status,
            )
        return text

    def _no_answer(self, error: Exception) -> ToolError:
        return ToolError(
            f"The API server '{self._client.configuration.host}' does not answer: {_short(error)}.",
            f"Check it with: kubectl --kubeconfig {self.kubeconfig} get nodes",
        )

    def get(self, path: str) -> Object | None:
        """One object; None if there is none."""
        try:
            found: Object = json.loads(self.call("GET", path))
        except ApiRefused as error:
            if error.status == 404:
                return None
            raise
        return found

    def items(self, path: str, **query: str) -> Iterator[Object]:
        """All objects of a list, page by page."""
        token = ""
        while True:
            asked = {"limit": str(PAGE_SIZE), **query, **({"continue": token} if token else {})}
            page: Object = json.loads(self.call("GET", path, query=asked))
            yield from page.get("items") or []
            token = (page.get("metadata") or {}).get("continue") or ""
            if not token:
                return

    def create(self, path: str, body: Object) -> Object:
        """Create an object."""
        made: Object = json.loads(self.call("POST", path, body))
        return made

    def delete(self, path: str, grace_s: int | None = None) -> None:
        """Delete an object; that it is gone already is fine."""
        body: Object = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        if grace_s is not None:
            body["gracePeriodSeconds"] = grace_s
        try:
            self.call("DELETE", path, body)
        except ApiRefused as error:
            if error.status != 404:
                raise

    def log(self, namespace: str, pod: str) -> str:
        """What a pod's first container printed so far; empty while there is nothing to read."""
        try:
            return self.call(
                "GET", f"/api/v1/namespaces/{namespace}/pods/{pod}/log", query={"limitBytes": "262144"}
            )
        except ApiRefused as error:
            # 400: the container is being created. 404: the pod is gone.
            if error.status in (400, 404):
                return ""
            raise


def _must_be_kubeconfig(path: Path) -> None:
    """Say so of a file that is something else; the client's own words would be those of a fault in a program."""
    import yaml

    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError, OSError) as error:
        raise InputError(
            f"Kubeconfig '{path}' cannot be read: {_short(error)}", "Fetch it again from the cluster."
        ) from error
    if not isinstance(found, dict) or not {"clusters", "contexts"} <= found.keys():
        raise InputError(
            f"File '{path}' is no kubeconfig: it has no 'clusters' and 'contexts'.",
            "Set 'gpusmith_kubeconfig' to a kubeconfig of this cluster.",
        )


def hint_for(status: int, kubeconfig: str) -> str:
    """What to do about a refusal: who is not known has other troubles than who may not."""
    if status == 401:
        return f"The credential in kubeconfig '{kubeconfig}' has expired or is wrong: fetch it again from the cluster."
    return f"Check the rights of the user in kubeconfig '{kubeconfig}'."


def _short(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    return " ".join(str(reason or error).split())[:300]


def _message(text: str) -> str:
    try:
        return str(json.loads(text).get("message", ""))[:400]
    except (ValueError, AttributeError):
        return text[:200]
