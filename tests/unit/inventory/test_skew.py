"""Kubelets that a cluster is too old for."""

from __future__ import annotations

from typing import Any, cast

import pytest

from gpusmith.cluster.api import ApiRefused, Cluster
from gpusmith.inventory.skew import ask_version, check_skew


class Server:
    """An API server that says one thing of its version."""

    def __init__(self, answer: str | Exception) -> None:
        self.answer = answer

    def call(self, method: str, path: str) -> str:
        assert (method, path) == ("GET", "/version")
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def asked(answer: Any) -> str:
    return ask_version(cast(Cluster, Server(answer)))


@pytest.mark.parametrize(
    ("kubelet", "server", "refused"),
    [
        ("1.35.4", "v1.35.4", False),
        # Patches of one minor go together, also where the node is ahead.
        ("1.35.9", "v1.35.4", False),
        ("1.34.4-1.1", "v1.35.4", False),
        ("1.36.3", "v1.35.4", True),
        ("1.36.3-150500.1.1", "v1.35.4-eks-1-35-2", True),
        ("2.0.0", "v1.35.4", True),
        ("1.9.0", "v1.35.4", False),
        # Who does not know says nothing.
        ("1.36.3", "", False),
        ("{{ nobody }}", "v1.35.4", False),
    ],
)
def test_no_kubelet_is_newer_than_the_api_server(kubelet: str, server: str, refused: bool) -> None:
    assert bool(check_skew({"gpu-1": kubelet}, server)) is refused


def test_it_names_the_nodes_both_versions_and_what_to_do() -> None:
    (found,) = check_skew({"gpu-1": "1.36.3", "gpu-2": "1.35.4", "gpu-3": "1.36.3"}, "v1.35.4")
    assert found.message.startswith("Hosts 'gpu-1', 'gpu-3': 'kubernetes_node_version' is '1.36.3'")
    assert "'v1.35.4'" in found.message
    assert "1.35" in found.hint


def test_a_server_that_does_not_tell_is_no_reason_to_refuse() -> None:
    assert asked('{"gitVersion": "v1.35.4"}') == "v1.35.4"
    assert [asked(answer) for answer in ("{}", "[]", "no JSON", ApiRefused("no", "", 403))] == [""] * 4
