"""The client: what it tries again and for how long, and what broken kubeconfigs, credentials and servers are called."""

from __future__ import annotations

import socket
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpusmith.cluster.api import ApiRefused, ApiUnreachable, Cluster
from gpusmith.cluster.hints import hint_for
from gpusmith.cluster.retries import ONE_TRY, Patience
from gpusmith.errors import InputError, ToolError
from tests.authorities import authority
from tests.unit import tls
from tests.unit.cluster.conftest import KUBECONFIG, Answer, Server, Time

Connect = Callable[..., Cluster]
POD: dict[str, Any] = {"metadata": {"name": "p", "labels": {"gpusmith.io/run": "a1"}}}
PODS = "/api/v1/namespaces/n/pods"


def says(status: int, data: Any = None, **headers: str) -> Answer:
    return status, {name.replace("_", "-"): value for name, value in headers.items()}, data


def page(token: str, *names: str) -> Answer:
    return says(200, {"metadata": {"continue": token}, "items": [{"metadata": {"name": n}} for n in names]})


# --- kubeconfigs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["garbage", "", "- a\n- b\n", "a: 1\n"])
def test_a_file_that_is_no_kubeconfig_is_called_so(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(InputError, match="is no kubeconfig"):
        Cluster(str(path))


@pytest.mark.parametrize("name", ["", "missing"])
def test_a_missing_kubeconfig_is_named_with_the_variable_to_set(tmp_path: Path, name: str) -> None:
    given = str(tmp_path / name) if name else ""
    with pytest.raises(InputError, match=f"'{given}' does not exist. Set 'gpusmith_kubeconfig'"):
        Cluster(given)


def test_a_kubeconfig_with_a_broken_certificate_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(
        "clusters: [{name: c, cluster: {server: 'https://x', certificate-authority-data: 'a'}}]\n"
        "users: [{name: u, user: {}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n"
    )
    with pytest.raises(InputError, match=r"cannot be used: .*Fetch it again"):
        Cluster(str(path))


# --- what is tried again ---------------------------------------------------------------------------------


def test_a_server_that_is_busy_is_asked_again_when_it_says(
    client: Cluster, server: Server, time: Time
) -> None:
    server.will(says(429, Retry_After="7"), says(200, {"a": 1}))
    assert client.get("/api/v1/x") == {"a": 1}
    assert time.slept == [7.0]


def test_a_server_that_asks_for_more_time_than_there_is_is_not_waited_for(
    client: Cluster, server: Server, time: Time
) -> None:
    server.will(says(429, Retry_After="3600"))
    with pytest.raises(ApiRefused):
        client.get("/api/v1/x")
    assert time.slept == []


@pytest.mark.parametrize("trouble", [says(500), says(502), says(503), says(504), None])
def test_what_passes_is_waited_out(client: Cluster, server: Server, trouble: Answer, time: Time) -> None:
    server.will(trouble, trouble, says(200, {"a": 1}))
    assert client.get("/api/v1/x") == {"a": 1}
    assert time.slept == sorted(time.slept)
    assert len(time.slept) == 2


@pytest.mark.parametrize("starts", [[], [500, 500, 503]])
def test_a_server_that_starts_refuses_everybody_for_a_while(
    client: Cluster, server: Server, starts: list[int]
) -> None:
    """It answers before it has read the roles (kube-apiserver 1.36, seen on the lab)."""
    server.starts = starts
    refusals = [says(403, {"message": "cannot get resource"})] * (len(starts) + 1)
    server.will(*refusals, says(200, {"a": 1}))
    assert client.get("/api/v1/x") == {"a": 1}


def test_who_may_not_is_told_so_after_a_second_try(client: Cluster, server: Server, time: Time) -> None:
    server.will(*[says(403, {"message": "because"})] * 3)
    with pytest.raises(
        ApiRefused, match=r"refused GET '/api/v1/x': 403 .*because.* Check the rights"
    ) as raised:
        client.get("/api/v1/x")
    assert (raised.value.status, len(server.seen), len(time.slept)) == (403, 2, 1)


@pytest.mark.parametrize("status", [400, 409, 422])
def test_a_refusal_that_stays_is_said_at_once(client: Cluster, server: Server, status: int) -> None:
    server.will(says(status, {"message": "because"}))
    with pytest.raises(ApiRefused, match=f"refused GET '/api/v1/x': {status} .*because") as raised:
        client.get("/api/v1/x")
    assert raised.value.status == status


@pytest.mark.parametrize(
    ("status", "data", "path", "foreign"),
    [
        (404, b"404 page not found", "/api/v1/nodes", True),
        (403, b"<html>", "/api/v1/nodes", True),
        (404, {"error": "no route"}, "/api/v1/nodes", True),
        (404, {"kind": "Status", "message": "not found"}, "/api/v1/nodes", False),
        (403, {"kind": "Status", "message": "because"}, "/api/v1/nodes", False),
        # So says an API server of a group that it does not have.
        (404, b"404 page not found", "/apis/resource.k8s.io/v1/resourceslices", False),
        (503, b"no backend", "/api/v1/nodes", False),
    ],
)
def test_what_is_no_api_server_is_called_so(
    connect: Connect, server: Server, status: int, data: Any, path: str, foreign: bool
) -> None:
    server.will(*[says(status, data)] * 2)
    cluster = connect(server.url, ONE_TRY)
    with pytest.raises(
        ApiRefused, match=f"The API server '{server.url}' refused GET '{path}': {status}"
    ) as told:
        cluster.call("GET", path)
    step = f"no API server of Kubernetes, but perhaps a proxy: correct 'server' in kubeconfig '{cluster.kubeconfig}'"
    assert (step in told.value.hint) is foreign
    assert "<html>" not in str(told.value)


def test_a_kubeconfig_that_checks_no_certificate_makes_no_noise(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    # Tests of other files may have asked for it before.
    with (
        warnings.catch_warnings(),
        tls.server(authority("a").server(tls.LOCAL), tmp_path, '{"a": 1}') as port,
    ):
        warnings.simplefilter("error")
        where = f"server: 'https://{tls.LOCAL}:{port}', insecure-skip-tls-verify: true"
        path.write_text(KUBECONFIG.format(server="").replace("server: ''", where))
        assert Cluster(str(path), ONE_TRY).get("/api/v1/x") == {"a": 1}


def test_trouble_that_stays_ends_with_the_deadline(client: Cluster, server: Server, time: Time) -> None:
    server.will(*[says(503, {"message": "etcd"})] * 50)
    with pytest.raises(ApiRefused, match="etcd"):
        client.get("/api/v1/x")
    assert time.now == Patience().total_s


def test_one_try_is_one(server: Server, connect: Connect, time: Time) -> None:
    server.will(says(503), says(200, {}))
    with pytest.raises(ApiRefused):
        connect(server.url, ONE_TRY).get("/api/v1/x")
    assert (len(server.seen), time.slept) == (1, [])


@pytest.fixture
def dead_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_a_dead_server_is_named_soon(connect: Connect, dead_port: int, time: Time) -> None:
    url = f"http://127.0.0.1:{dead_port}"
    with pytest.raises(
        ApiUnreachable, match=rf"'{url}' does not answer: .*refused.*tries.*kubectl --kubeconfig"
    ):
        connect(url).get("/api/v1/x")
    assert time.now == Patience().contact_s < Patience().total_s


def test_a_server_that_was_there_gets_the_time_of_a_restart(
    connect: Connect, server: Server, dead_port: int, time: Time
) -> None:
    client = connect(server.url)
    server.will(says(200, {}))
    client.get("/api/v1/x")
    client._client.configuration.host = f"http://127.0.0.1:{dead_port}"
    with pytest.raises(ApiUnreachable):
        client.get("/api/v1/x")
    assert time.now == Patience().total_s


def test_an_untrusted_certificate_is_no_refusal_and_does_not_pass(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, time: Time
) -> None:
    from kubernetes.client import ApiClient
    from kubernetes.client.exceptions import ApiException

    def distrust(*_: object, **__: object) -> None:
        raise ApiException(status=0, reason="SSLError\n[SSL: CERTIFICATE_VERIFY_FAILED]")

    monkeypatch.setattr(ApiClient, "call_api", distrust)
    with pytest.raises(
        ToolError, match=r"does not answer: SSLError \[SSL: CERTIFICATE_VERIFY_FAILED\]"
    ) as raised:
        connect("https://127.0.0.1:1").get("/api/v1/namespaces/x")
    assert "rights" not in raised.value.hint
    assert time.slept == []


# --- lists -----------------------------------------------------------------------------------------------


def names(rows: list[dict[str, Any]]) -> list[str]:
    return [row["metadata"]["name"] for row in rows]


def test_a_list_is_read_in_pages(client: Cluster, server: Server) -> None:
    server.will(page("t", "a"), page("", "b"))
    assert names(client.items("/api/v1/pods", fieldSelector="f")) == ["a", "b"]
    assert server.seen[1] == ("GET", "/api/v1/pods?limit=250&fieldSelector=f&continue=t")


def test_a_list_whose_token_expired_begins_anew(client: Cluster, server: Server) -> None:
    server.will(page("t", "a", "b"), says(410), page("u", "b"), page("", "c"))
    assert names(client.items("/api/v1/pods")) == ["b", "c"]


def test_trouble_between_pages_costs_no_page(client: Cluster, server: Server) -> None:
    server.will(page("t", "a"), None, says(503), page("", "b"))
    assert names(client.items("/api/v1/pods")) == ["a", "b"]
    assert len(server.seen) == 4


# --- creating --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", [None, says(504)])
def test_a_create_whose_answer_got_lost_counts_if_the_object_is_ours(
    client: Cluster, server: Server, trouble: Answer
) -> None:
    server.will(trouble, says(409), says(200, {**POD, "status": {}}))
    assert client.create(PODS, POD) == {**POD, "status": {}}
    assert [method for method, _ in server.seen] == ["POST", "POST", "GET"]


@pytest.mark.parametrize(
    "there", [says(200, {"metadata": {"name": "p", "labels": {"gpusmith.io/run": "b2"}}}), says(403)]
)
def test_what_somebody_else_made_stays_a_conflict(client: Cluster, server: Server, there: Answer) -> None:
    server.will(None, says(409), there, there)
    with pytest.raises(ApiRefused) as raised:
        client.create(PODS, POD)
    assert raised.value.status == 409


def test_a_conflict_at_the_first_try_is_one(client: Cluster, server: Server) -> None:
    server.will(says(409))
    with pytest.raises(ApiRefused):
        client.create(PODS, POD)
    assert len(server.seen) == 1


@pytest.mark.parametrize("body", [{"metadata": {"generateName": "p-"}}, {"metadata": {"name": "p"}}])
def test_what_could_not_be_known_again_is_created_once(
    client: Cluster, server: Server, body: dict[str, Any]
) -> None:
    server.will(None, says(503))
    with pytest.raises(ApiUnreachable):
        client.create(PODS, body)
    with pytest.raises(ApiRefused):
        client.create(PODS, body)
    assert len(server.seen) == 2
    server.will(says(429), says(201, body))
    assert client.create(PODS, body) == body, "of a 429 nothing was done"


def test_what_never_left_is_sent_again_whatever_it_is(connect: Connect, dead_port: int, time: Time) -> None:
    with pytest.raises(ApiUnreachable):
        connect(f"http://127.0.0.1:{dead_port}").create(PODS, {"metadata": {"generateName": "p-"}})
    assert time.now == Patience().contact_s


def test_an_eviction_is_asked_for_once(client: Cluster, server: Server) -> None:
    server.will(says(429, {"message": "would violate the pod's disruption budget"}, Retry_After="1"))
    with pytest.raises(ApiRefused, match="disruption budget") as raised:
        client.evict("n", "p")
    assert (raised.value.status, len(server.seen)) == (429, 1)
    assert server.seen[0] == ("POST", f"{PODS}/p/eviction")


# --- changing --------------------------------------------------------------------------------------------


def test_patches_say_who_sends_them_and_whether_they_are_meant(client: Cluster, server: Server) -> None:
    server.will(*[says(200, {})] * 3)
    client.patch("/p", {}, "m")
    client.patch("/p", [], "m", "application/json-patch+json", dry_run=True)
    client.apply("/p", {}, "m", dry_run=True)
    assert server.kinds == [
        "application/merge-patch+json",
        "application/json-patch+json",
        "application/apply-patch+yaml",
    ]
    assert [path for _, path in server.seen] == [
        "/p?fieldManager=m",
        "/p?fieldManager=m&dryRun=All",
        "/p?fieldManager=m&force=true&dryRun=All",
    ]


def test_a_delete_whose_answer_got_lost_is_sent_again(client: Cluster, server: Server) -> None:
    server.will(None, says(404))
    assert client.delete("/p") is False
    assert [method for method, _ in server.seen] == ["DELETE", "DELETE"]


def test_a_delete_that_is_only_tried_out_says_so_in_its_body(client: Cluster, server: Server) -> None:
    # Beside a body, the API server does not look at the query: such a try would delete.
    server.will(says(200, {}), says(200, {}))
    assert client.delete("/p", grace_s=1, dry_run=True)
    client.delete("/p")
    assert [body.get("dryRun") for body in server.bodies] == [["All"], None]
    assert server.bodies[0]["gracePeriodSeconds"] == 1


def test_a_log_that_is_not_there_yet_is_empty(client: Cluster, server: Server) -> None:
    server.will(says(400), says(404), says(403), says(403))
    assert client.log("n", "p", "workload") == client.log("n", "p", "workload") == ""
    with pytest.raises(ApiRefused):
        client.log("n", "p", "workload")


def test_a_refused_credential_is_not_a_lack_of_rights() -> None:
    assert "expired or is wrong" in hint_for(401, "k")
    assert "rights" in hint_for(403, "k")
    for status, said in (
        (
            403,
            'admission webhook "validation.gatekeeper.sh" denied the request: you must provide labels: {"owner"}',
        ),
        (400, 'admission webhook "validate.kyverno.svc-fail" denied the request'),
        (422, "ValidatingAdmissionPolicy 'gpus' with binding 'all' denied request: no limits"),
        (403, 'pods "n0-cuda" is forbidden: violates PodSecurity "restricted:latest"'),
        (
            403,
            'admission webhook "validate.kyverno.svc-fail" denied the request: containers cannot run as root',
        ),
        (403, 'pods "n0-cuda" is forbidden: exceeded quota: default, requested: pods=1, used: pods=1'),
        (403, 'pods "n0-cuda" is forbidden: maximum memory usage per Container is 1Gi, but limit is 4Gi'),
    ):
        assert "validation_labels" in hint_for(status, "k", said)
    words = 'namespaces is forbidden: User "suite" cannot create resource "namespaces" in API group ""'
    assert "rights" in hint_for(403, "k", words)
    assert "rights" in hint_for(403, "k", f"{words}: Azure Policy does not have opinion for this user")
    assert "rights" not in hint_for(409, "k") + hint_for(422, "k") + hint_for(503, "k")
