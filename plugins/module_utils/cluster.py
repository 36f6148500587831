"""The Kubernetes API as gpusmith's modules see it: a kubeconfig in, few list calls, errors with a hint out.

These modules run on the controller, in the environment that holds the kubernetes client.
"""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PAGE_SIZE = 500
REQUEST_TIMEOUT_S = 30


class ClusterError(Exception):
    """The cluster cannot be asked; the text says what to look at."""


class ClusterRefusedError(ClusterError):
    """The API server answered with no, which can be about one object only.

    Attributes:
        status: HTTP status; 0 if it is not known.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class ClusterApi:
    """What gpusmith asks of one cluster: its Node objects, who runs operands in it, and who set what in ours.

    Args:
        kubeconfig: path on the controller.

    Raises:
        ClusterError: the file is missing or unusable, or the client is not installed.
    """

    def __init__(self, kubeconfig: str) -> None:
        path = Path(kubeconfig).expanduser()
        if not path.is_file():
            raise ClusterError(
                f"Kubeconfig '{path}' does not exist. Set 'gpusmith_kubeconfig' to one for this cluster."
            )
        try:
            from kubernetes import config
        except ImportError as error:
            raise ClusterError(
                f"The Python package 'kubernetes' cannot be used here: {error}. Run 'make setup'."
            ) from error
        try:
            self._client = config.new_client_from_config(config_file=str(path))
        except Exception as error:  # the client raises its own and yaml's errors alike
            raise ClusterError(f"Kubeconfig '{path}' cannot be read: {error}") from error

    def nodes(self, label_selector: str = "") -> Iterator[dict[str, Any]]:
        """Every Node as plain JSON data, in pages, so that the cost is the list's and not the number of hosts'."""
        return self._list("nodes", "/api/v1/nodes", labelSelector=label_selector)

    def has_namespace(self, name: str) -> bool:
        """Whether there is such a namespace."""
        found = self._call(
            f"read namespace '{name}'", "GET", f"/api/v1/namespaces/{name}", missing_is_none=True
        )
        return found is not None

    def workloads(self) -> Iterator[dict[str, Any]]:
        """Every DaemonSet and Deployment of the cluster, as plain JSON data."""
        for resource in ("daemonsets", "deployments"):
            yield from self._list(resource, f"/apis/apps/v1/{resource}")

    def _list(self, what: str, path: str, **query: Any) -> Iterator[dict[str, Any]]:
        token = ""
        while True:
            page = self._call(
                f"list the {what}", "GET", path, query={"limit": PAGE_SIZE, "continue": token, **query}
            )
            yield from page.get("items", [])
            token = page.get("metadata", {}).get("continue") or ""
            if not token:
                return

    def node(self, name: str) -> dict[str, Any] | None:
        """One Node, or None if the cluster has none of that name."""
        node: dict[str, Any] | None = self._call(
            f"read node '{name}'", "GET", f"/api/v1/nodes/{name}", missing_is_none=True
        )
        return node

    def patch(
        self,
        name: str,
        body: dict[str, Any],
        content_type: str = "application/merge-patch+json",
        dry_run: bool = False,
        query: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Patch one Node and return it as it is then."""
        asked = dict(query or {})
        if dry_run:
            asked["dryRun"] = "All"
        result: dict[str, Any] = self._call(
            f"change node '{name}'",
            "PATCH",
            f"/api/v1/nodes/{name}",
            body=body,
            content_type=content_type,
            query=asked,
        )
        return result

    def read(self, path: str) -> dict[str, Any] | None:
        """One object by its path, or None if there is none."""
        found: dict[str, Any] | None = self._call(f"read '{path}'", "GET", path, missing_is_none=True)
        return found

    def replace_managed_fields(
        self, path: str, rows: Sequence[Mapping[str, Any]], version: str, dry_run: bool = False
    ) -> None:
        """Say anew who owns which field of an object that was read in this version.

        Raises:
            ClusterRefusedError: with status 409 if there is a newer version meanwhile.
        """
        # As kubectl does it: a replaced version is answered with a conflict, a tested one with an invalid request.
        body: list[dict[str, Any]] = [
            {"op": "replace", "path": "/metadata/managedFields", "value": list(rows)},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
        ]
        self._call(
            f"change the owners of fields of '{path}'",
            "PATCH",
            path,
            body=body,
            content_type="application/json-patch+json",
            query={"dryRun": "All"} if dry_run else None,
        )

    def _call(
        self,
        what: str,
        method: str,
        path: str,
        *,
        body: dict[str, Any] | list[dict[str, Any]] | None = None,
        content_type: str = "application/json",
        query: dict[str, Any] | None = None,
        missing_is_none: bool = False,
    ) -> Any:
        from kubernetes.client.exceptions import ApiException

        host = self._client.configuration.host
        request = self._client.param_serialize(
            method,
            path,
            query_params=[(key, value) for key, value in (query or {}).items() if value != ""],
            header_params={"Accept": "application/json", "Content-Type": content_type},
            body=body,
            auth_settings=["BearerToken"],
        )
        try:
            answer = self._client.call_api(*request, _request_timeout=REQUEST_TIMEOUT_S)
            raw = answer.read()
            if answer.status >= 400:
                raise ApiException(status=answer.status, reason=answer.reason, body=raw)
        except ApiException as error:
            if error.status == 404 and missing_is_none:
                return None
            raise ClusterRefusedError(
                f"The API server refused to {what}: {error.status} {error.reason}. {_message(error)}".strip(),
                error.status or 0,
            ) from error
        except Exception as error:
            raise ClusterError(
                f"The API server '{host}' did not answer to {what}: {error}. Check 'gpusmith_kubeconfig' and the way to the cluster."
            ) from error
        return json.loads(raw)


def _message(error: Any) -> str:
    try:
        return str(json.loads(error.body)["message"])
    except (TypeError, ValueError, KeyError):
        return ""
