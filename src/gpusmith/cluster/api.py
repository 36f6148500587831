"""The client: the few calls to the Kubernetes API that gpusmith needs, as plain JSON data.

What may pass by itself is tried again within one deadline: 429, 5xx, a lost connection, an expired continue token, and what a
server refuses while it starts.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpusmith.cluster import kubeconfig as kubeconfigs
from gpusmith.cluster import retries
from gpusmith.cluster.hints import hint_for
from gpusmith.cluster.kubeconfig import Access
from gpusmith.cluster.retries import Patience
from gpusmith.errors import ToolError
from gpusmith.wait import Deadline

PAGE_SIZE = 250
CONNECT_TIMEOUT_S = 10
REQUEST_TIMEOUT_S = 30
CONNECTIONS = 64
READINESS = "/readyz"
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
DRY = {"dryRun": "All"}
UNKNOWN = 401
FORBIDDEN = 403
CONFLICT = 409
MISSING = 404

Object = dict[str, Any]
Cut = Callable[[Object], Object | None]


class ApiRefused(ToolError):  # noqa: N818
    """The API server answered, with an error.

    Attributes:
        status: HTTP status.
        in_doubt: an earlier try of the same call got no answer, or one that leaves open whether it was done.
        of_kubernetes: an API server of Kubernetes may have said it, and no proxy.
    """

    def __init__(
        self, message: str, hint: str, status: int, in_doubt: bool = False, of_kubernetes: bool = True
    ) -> None:
        super().__init__(message, hint)
        self.status = status
        self.in_doubt = in_doubt
        self.of_kubernetes = of_kubernetes


class ApiUnreachable(ToolError):  # noqa: N818
    """The API server did not answer."""


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    reason: str
    text: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ApiResource:
    """How the API server has objects of one kind.

    Attributes:
        plural: its name in paths.
        namespaced: whether each of them is in a namespace.
    """

    plural: str
    namespaced: bool


class Lost(Exception):  # noqa: N818 - it does not leave this file
    """Nothing came back.

    Attributes:
        reason: in words.
        sent: whether the request may have reached the server.
        may_pass: whether another try can help.
    """

    def __init__(self, reason: str, sent: bool, may_pass: bool = True) -> None:
        super().__init__(reason)
        self.reason, self.sent, self.may_pass = reason, sent, may_pass


class Cluster:
    """One cluster, by a kubeconfig.

    Args:
        kubeconfig: path, or another way to the API server.
        patience: how long a call goes on trying.
        sleep: replaced in tests.
        clock: replaced in tests.

    Raises:
        InputError: the kubeconfig is missing or unusable.
    """

    def __init__(
        self,
        kubeconfig: str | Access,
        patience: Patience | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.kubeconfig, settings = kubeconfigs.load(kubeconfig)
        self._way = (kubeconfig if isinstance(kubeconfig, Access) else Access(self.kubeconfig)).way
        import urllib3
        from kubernetes import client

        settings.connection_pool_maxsize = CONNECTIONS
        if not settings.verify_ssl:
            # Whoever wrote the kubeconfig knows; it would be said at each request.
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        # The tries are ours to count.
        settings.retries = False
        self._client = client.ApiClient(settings)
        self._patience = patience or retries.PATIENT
        self._sleep, self._clock = sleep, clock
        self._contacted = False
        self._kinds: dict[str, Mapping[str, ApiResource]] = {}

    @property
    def host(self) -> str:
        """Address of the API server, as the kubeconfig has it."""
        return str(self._client.configuration.host)

    # --- one request, with its tries ---------------------------------------------------------------------

    def call(
        self,
        method: str,
        path: str,
        body: Object | Sequence[Object] | None = None,
        query: Mapping[str, str] | None = None,
        kind: str = JSON,
        patience: Patience | None = None,
        repeatable: bool = False,
    ) -> str:
        """One request; the answer's text.

        Args:
            method: of HTTP.
            path: on the server.
            body: JSON data.
            query: parameters.
            kind: of the body.
            patience: another one than the client's.
            repeatable: a second request does no more than the first, although the method does not promise that.

        Raises:
            ApiRefused: the API server answered with an error.
            ApiUnreachable: it did not answer.
        """
        patience = patience or self._patience
        total = Deadline(patience.total_s, self._clock)
        contact = Deadline(min(patience.contact_s, patience.total_s), self._clock)
        as_method = "PUT" if repeatable else method
        pause, tries, in_doubt, believed = retries.FIRST_PAUSE_S, 0, False, False
        while True:
            tries += 1
            asked: float | None = None
            error: ApiRefused | ApiUnreachable
            try:
                answer = self._attempt(method, path, body, query, kind)
            except Lost as lost:
                again = lost.may_pass and (as_method in retries.REPEATABLE or not lost.sent)
                in_doubt = in_doubt or lost.sent
                error = self._unreachable(lost, tries)
            else:
                self._contacted = True
                if answer.status < 400:
                    return answer.text
                again, asked = (
                    retries.may_pass(as_method, answer.status),
                    retries.asked_pause(answer.headers),
                )
                if answer.status in (UNKNOWN, FORBIDDEN):
                    # It may have become ready between both answers, so that it is asked once more.
                    starts = not self._is_ready()
                    again, believed = starts or not believed, not starts
                error = self._refused(method, path, answer, in_doubt)
                in_doubt = in_doubt or answer.status in retries.PASSING - {retries.TOO_MANY}
            left = (total if self._contacted else contact).remaining()
            # A server that asks for more time than there is will not answer sooner.
            if not again or left == 0.0 or (asked is not None and asked > left):
                raise error
            self._sleep(min(pause if asked is None else max(asked, 0.05), left))
            pause = retries.next_pause(pause)

    def _is_ready(self) -> bool:
        """Whether the API server has read all that it decides by: one that starts refuses everybody until it has read the roles.

        Everybody may ask that (--authorization-always-allow-paths of kube-apiserver). If it may not be asked, it counts as ready.
        """
        try:
            return self._attempt("GET", READINESS, None, None, JSON).status < 500
        except Lost:
            return False

    def _attempt(
        self,
        method: str,
        path: str,
        body: Object | Sequence[Object] | None,
        query: Mapping[str, str] | None,
        kind: str,
    ) -> Answer:
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import ConnectTimeoutError, NewConnectionError

        request = self._client.param_serialize(
            method,
            path,
            query_params=list((query or {}).items()),
            header_params={"Accept": f"{JSON}, text/plain", "Content-Type": kind},
            body=body,
            auth_settings=["BearerToken"],
        )
        try:
            answer = self._client.call_api(*request, _request_timeout=(CONNECT_TIMEOUT_S, REQUEST_TIMEOUT_S))
            data = answer.read()
        except ApiException as error:
            if not error.status:  # no answer: the client says so of everything that TLS ends with
                reason = _short(error)
                raise Lost(reason, sent=True, may_pass="certificate" not in reason.lower()) from error
            return Answer(
                int(error.status), str(error.reason), _text(error.body or b""), dict(error.headers or {})
            )
        except (NewConnectionError, ConnectTimeoutError) as error:
            raise Lost(_short(error), sent=False) from error
        except Exception as error:  # every kind of broken connection, from several libraries
            raise Lost(_short(error), sent=True) from error
        return Answer(int(answer.status), str(answer.reason), _text(data), dict(answer.headers or {}))

    def _unreachable(self, lost: Lost, tries: int) -> ApiUnreachable:
        how_often = f" ({tries} tries)" if tries > 1 else ""
        return ApiUnreachable(
            f"The API server '{self._client.configuration.host}' does not answer: {lost.reason}{how_often}.",
            self._way,
        )

    def _refused(self, method: str, path: str, answer: Answer, in_doubt: bool) -> ApiRefused:
        said = f"The API server '{self.host}' refused {method} '{path}': {answer.status} {answer.reason}. {_message(answer.text)}"
        known = not path.startswith("/api/") or _is_status(answer.text)
        hint = hint_for(answer.status, self.kubeconfig, said, known)
        return ApiRefused(said.strip(), hint, answer.status, in_doubt, known)

    # --- reading -----------------------------------------------------------------------------------------

    def get(self, path: str) -> Object | None:
        """One object; None if there is none."""
        try:
            found: Object = json.loads(self.call("GET", path))
        except ApiRefused as error:
            if error.status == MISSING:
                return None
            raise
        return found

    def serves(self, version: str) -> bool:
        """Whether the API has a version of a group, by its path."""
        return bool(self.kinds(version.removeprefix("/apis/")))

    def kinds(self, version: str, again: bool = False) -> Mapping[str, ApiResource]:
        """The kinds of a group and version, such as 'apps/v1', by name; none where the cluster does not have it.

        Args:
            version: as objects have it in 'apiVersion'.
            again: ask although the answer is known, since it may have become another one.
        """
        if again or version not in self._kinds:
            self._kinds[version] = kinds_in(
                self.get(f"/{'apis' if '/' in version else 'api'}/{version}") or {}
            )
        return self._kinds[version]

    def items(self, path: str, cut: Cut | None = None, /, **query: str) -> list[Object]:
        """All objects of a list, read in pages and cut as they come. One whose token expires meanwhile is begun anew."""
        deadline = Deadline(self._patience.total_s, self._clock)
        while True:
            try:
                return self._pages(path, query, cut or (lambda row: row))
            except ApiRefused as error:
                if error.status != retries.GONE or deadline.passed():
                    raise

    def _pages(self, path: str, query: Mapping[str, str], cut: Cut) -> list[Object]:
        found: list[Object] = []
        token = ""
        while True:
            asked = {"limit": str(PAGE_SIZE), **query, **({"continue": token} if token else {})}
            page: Object = json.loads(self.call("GET", path, query=asked))
            found += [kept for row in page.get("items") or [] if (kept := cut(row)) is not None]
            token = (page.get("metadata") or {}).get("continue") or ""
            if not token:
                return found

    def log(self, namespace: str, pod: str, container: str) -> str:
        """What a container of a pod printed so far; empty while there is nothing to read."""
        query = {"limitBytes": "262144", "container": container}
        try:
            return self.call("GET", f"/api/v1/namespaces/{namespace}/pods/{pod}/log", query=query)
        except ApiRefused as error:
            # 400: the container is being created. 404: the pod is gone.
            if error.status in (400, MISSING):
                return ""
            raise

    # --- writing -----------------------------------------------------------------------------------------

    def create(self, path: str, body: Object, query: Mapping[str, str] | None = None) -> Object:
        """Create an object; with query DRY, have the API server try that out only.

        One whose answer got lost is sent again if it has a name and marks, by which what an earlier try made is known.
        """
        ours = bool(body["metadata"].get("name") and _marks(body))
        try:
            made: Object = json.loads(self.call("POST", path, body, query, repeatable=ours))
        except ApiRefused as error:
            there = self._made_before(path, body) if error.status == CONFLICT and error.in_doubt else None
            if there is None:
                raise
            return there
        return made

    def _made_before(self, path: str, body: Object) -> Object | None:
        """The object, if it is the one that an earlier try made; None also if it may not be read."""
        try:
            there = self.get(f"{path}/{body['metadata']['name']}")
        except ApiRefused:
            return None
        return there if there and _marks(body).items() <= _marks(there).items() else None

    def patch(
        self,
        path: str,
        body: Object | Sequence[Object],
        manager: str,
        kind: str = MERGE_PATCH,
        dry_run: bool = False,
    ) -> Object:
        """Change an object, and return it as it is then.

        Args:
            path: of the object.
            body: a merge patch, or the operations of a JSON patch.
            manager: field manager.
            kind: of the body.
            dry_run: have the API server try it out only.
        """
        query = {"fieldManager": manager, **(DRY if dry_run else {})}
        found: Object = json.loads(self.call("PATCH", path, body, query, kind))
        return found

    def apply(self, path: str, body: Object, manager: str, dry_run: bool = False) -> Object:
        """Server-side apply; fields of others give way."""
        query = {"fieldManager": manager, "force": "true", **(DRY if dry_run else {})}
        found: Object = json.loads(self.call("PATCH", path, body, query, APPLY_PATCH))
        return found

    def evict(self, namespace: str, pod: str) -> None:
        """Ask for a pod to be moved elsewhere, as its disruption budget allows; once, since the caller knows how long to ask.

        Raises:
            ApiRefused: 429 if the budget does not allow it now, 404 if the pod is gone.
        """
        body: Object = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
        }
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction"
        self.call("POST", path, body, patience=retries.ONE_TRY)

    def delete(
        self, path: str, grace_s: int | None = None, dry_run: bool = False, uid: str | None = None
    ) -> bool:
        """Delete an object; False if it was gone already, or if another one than `uid` has its name."""
        body: Object = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        if grace_s is not None:
            body["gracePeriodSeconds"] = grace_s
        if uid:
            body["preconditions"] = {"uid": uid}
        if dry_run:
            # In the body: beside one, the API server does not look at the query.
            body["dryRun"] = ["All"]
        try:
            self.call("DELETE", path, body)
        except ApiRefused as error:
            if error.status != MISSING and not (uid and error.status == CONFLICT):
                raise
            return False
        return True


def kinds_in(listed: Object) -> dict[str, ApiResource]:
    """What an APIResourceList has, without parts of objects such as 'deployments/scale'."""
    return {
        row["kind"]: ApiResource(row["name"], bool(row["namespaced"]))
        for row in listed.get("resources") or []
        if "/" not in row["name"]
    }


def _marks(body: Object) -> dict[str, str]:
    """Labels and annotations: by them an object is known to be of one run."""
    metadata = body["metadata"]
    return {**(metadata.get("annotations") or {}), **(metadata.get("labels") or {})}


def _text(data: bytes | str) -> str:
    return data.decode(errors="replace") if isinstance(data, bytes) else data


def _short(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    return " ".join(str(reason or error).split())[:300]


def _is_status(text: str) -> bool:
    """Whether it is how an API server of Kubernetes says what is wrong (`Status` of apimachinery); a proxy has a page."""
    try:
        found = json.loads(text)
    except ValueError:
        return False
    return isinstance(found, dict) and bool({"kind", "message"} & found.keys())


def _message(text: str) -> str:
    try:
        return str(json.loads(text).get("message", ""))[:400]
    except (ValueError, AttributeError):
        return "" if text.lstrip().startswith("<") else text[:200]
