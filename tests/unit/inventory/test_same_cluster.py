"""Kubeconfigs: there for every node, and of the cluster that nodes join."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpusmith.cluster.api import ApiRefused
from gpusmith.cluster.endpoint import Answer, Found, Place, ask
from gpusmith.inventory import same_cluster
from gpusmith.inventory.same_cluster import (
    Known,
    check_cluster,
    check_kubeconfigs,
    check_proxy,
    check_same_cluster,
)
from gpusmith.inventory.templates import UnfilledError


class Hosts:
    def __init__(self, rows: Mapping[str, Mapping[str, Any]]) -> None:
        self.rows = rows

    def filled(self, host: str, name: str) -> Any:
        value = self.rows[host][name]
        if isinstance(value, Exception):
            raise value
        return value


def test_every_host_needs_a_kubeconfig_that_exists(tmp_path: Path) -> None:
    there = {"gpusmith_kubeconfig": str(tmp_path / "config")}
    (tmp_path / "config").write_text("clusters: []\ncontexts: []\n")
    rows: dict[str, dict[str, Any]] = {"a": there, "b": {**there, "validation_kubeconfig": ""}}
    assert check_kubeconfigs(Hosts(rows), list(rows)) == []
    rows = {"a": there, "b": {}, "c": {"gpusmith_kubeconfig": ""}}
    (refusal,) = check_kubeconfigs(Hosts(rows), list(rows))
    assert refusal.message == "Hosts 'b', 'c': 'gpusmith_kubeconfig' is not set."
    rows = {"a": there, "b": {**there, "validation_kubeconfig": "/nowhere/few"}}
    (refusal,) = check_kubeconfigs(Hosts(rows), list(rows))
    assert refusal.message == "Host 'b': kubeconfig '/nowhere/few' does not exist."
    assert "'validation_kubeconfig'" in refusal.hint


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "'CONFIG' does not exist."),
        ("a: b\n", "File 'CONFIG' is no kubeconfig"),
        (":", "cannot be read: "),
        (
            PermissionError(13, "Permission denied"),
            "cannot be read: Permission denied. Name a file that this",
        ),
    ],
)
def test_a_kubeconfig_is_looked_into_before_the_cluster_is_asked(
    tmp_path: Path, content: str | OSError | None, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_text(*_: Any, **__: Any) -> str:
        raise content if isinstance(content, OSError) else AssertionError

    path = tmp_path / "config"
    if isinstance(content, str):
        path.write_text(content)
    elif content:
        monkeypatch.setattr(Path, "read_text", read_text)
    rows = {name: {"gpusmith_kubeconfig": str(path)} for name in ("a", "b")}
    (refusal,) = check_kubeconfigs(Hosts(rows), list(rows))
    assert str(refusal).startswith("Hosts 'a', 'b': ")
    assert says.replace("CONFIG", str(path))[1:] in str(refusal)


def test_a_template_that_cannot_be_filled_in_is_told_with_its_reason() -> None:
    rows = {"a": {"gpusmith_kubeconfig": UnfilledError("'nobody' is undefined")}}
    (refusal,) = check_kubeconfigs(Hosts(rows), ["a"])
    assert "'nobody' is undefined" in refusal.message


def test_the_kubeconfig_must_lead_to_the_cluster_that_nodes_join() -> None:
    here = Known(["https://10.0.0.1:6443", "https://API.example:6443", "https://[fd00:0::1]:6443"])
    for same in ("10.0.0.1:6443", "api.example", "Api.Example.:6443", "[FD00::1]:6443", ""):
        assert check_same_cluster("k", same, here) == []
    assert check_same_cluster("k", "10.0.0.1:6443", Known()) == []
    (refusal,) = check_same_cluster("k", "10.9.9.9:6443", here)
    assert "10.9.9.9:6443" in refusal.message


@pytest.mark.parametrize("given", ["fd00::1:6443", "lb:many", ":6443"])
def test_an_endpoint_that_is_no_address_is_refused(given: str) -> None:
    (refusal,) = check_same_cluster("k", given, Known(["https://10.0.0.1:6443"], "PEM"))
    assert "in brackets" in refusal.hint


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (Found.SAME, ""),
        (Found.NAMELESS, "does not have the name 'lb'"),
        (Found.OTHER, "but the nodes would join 'LB:443'"),
        (Found.NOBODY, "nobody answers from here (timed out)"),
    ],
)
def test_at_an_address_of_its_own_a_load_balancer_is_known_by_what_answers_there(
    found: Found, words: str
) -> None:
    asked = []

    def ask(where: Place, authority: str) -> Answer:
        asked.append((where, authority))
        return Answer(found, "timed out")

    here = Known(["https://10.0.0.1:6443", "https://10.0.0.1:6443"], "PEM")
    refusals = check_same_cluster("k", "LB:443", here, ask)
    assert [words in refusal.message for refusal in refusals] == [True] * bool(words)
    assert asked == [(("lb", 443), "PEM")]


def test_a_balancer_that_is_down_keeps_nobody_from_what_joins_no_node() -> None:
    here = Known(["https://10.0.0.1:6443"], "PEM")
    for found, refused in ((Found.NOBODY, False), (Found.OTHER, True)):
        answer = Answer(found, "timed out")
        assert bool(check_same_cluster("k", "LB:443", here, lambda *_, it=answer: it, joins=False)) is refused
        assert check_same_cluster("k", "LB:443", here, lambda *_, it=answer: it)


@pytest.mark.parametrize("given", ["[fd00::1:6443", "host:many", ""])
def test_what_is_no_address_is_refused_and_never_asked(given: str) -> None:
    refused = check_same_cluster("k", given, Known(["https://10.0.0.1:6443"], "PEM"))
    assert [each.message for each in refused] == (
        [f"'kubernetes_node_control_plane_endpoint' is '{given}', which is no address of an API server."]
        if given
        else []
    )


def test_an_authority_that_is_no_certificate_vouches_for_nobody() -> None:
    assert ask(Place("127.0.0.1", 1), "no certificate").found is Found.NOBODY


@pytest.mark.parametrize(
    ("proxy", "endpoint", "servers", "refused"),
    [
        ({"https": "http://p"}, "10.0.0.1:6443", ["https://k", "https://api.example.com:6443"], True),
        ({"https": "http://p"}, "api.example.com:6443", ["https://k", "https://api.example.com:6443"], False),
        ({"https": "http://p"}, "[fd00::1]:6443", ["https://k", "https://[fd00::1]:6443"], False),
        (
            {"http": "http://p", "no_proxy": [".example.com"]},
            "10.0.0.1:6443",
            ["https://api.example.com"],
            False,
        ),
        ({"no_proxy": []}, "10.0.0.1:6443", ["https://k", "https://api.example.com"], False),
        ({}, "10.0.0.1:6443", ["https://k", "https://api.example.com"], False),
        ({"https": "http://p"}, "10.0.0.1:6443", [], False),
    ],
)
def test_a_kubelet_never_asks_the_api_server_by_the_proxy(
    proxy: dict[str, Any], endpoint: str, servers: list[str], refused: bool
) -> None:
    found = check_proxy(proxy, endpoint, servers)
    assert bool(found) is refused
    assert all("Add 'api.example.com' to 'no_proxy'" in each.hint for each in found)


class Api:
    """A cluster that kubeadm did not make: it answers, and says its version."""

    host = "https://10.0.0.1:6443"

    def __init__(self, *_: Any) -> None:
        pass

    def call(self, _method: str, path: str, **_: Any) -> str:
        return '{"gitVersion": "v1.35.4"}' if path == "/version" else "{}"

    def get(self, _path: str) -> None:
        return None


def test_kubelets_that_are_newer_than_the_cluster_are_refused_where_nodes_join(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(same_cluster, "Cluster", Api)
    hosts = Hosts({"a": {"gpusmith_kubeconfig": "k"}})
    (refusal,) = check_cluster(hosts, "a", {"a": "1.36.3", "b": "1.35.9"})
    assert "'1.36.3'" in refusal.message
    assert refusal.message.startswith("Host 'a'")
    assert check_cluster(hosts, "a") == []


@pytest.mark.parametrize(
    ("of_kubernetes", "says"), [(True, "refuses its user (403)"), (False, "a proxy said")]
)
def test_a_proxy_that_refuses_is_no_lack_of_rights(
    of_kubernetes: bool, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Any:
        raise ApiRefused("a proxy said", "correct 'server'", 403, of_kubernetes=of_kubernetes)

    monkeypatch.setattr("gpusmith.inventory.same_cluster.Cluster", refuse)
    (refusal,) = check_cluster(Hosts({"a": {"gpusmith_kubeconfig": "/k"}}), "a")
    assert says in refusal.message
