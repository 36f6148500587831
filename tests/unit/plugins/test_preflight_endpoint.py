"""Whether an API server answers where a machine would join, by real connections on this machine."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path

from ansible_collections.gpusmith.gpu.plugins.modules.preflight import silent_endpoint

from tests.authorities import authority
from tests.unit.tls import LOCAL, server


def test_who_speaks_tls_answers_whosever_it_is(tmp_path: Path) -> None:
    with server(authority().server("api.example.com"), tmp_path) as port:
        assert silent_endpoint(f"{LOCAL}:{port}") is None


def cluster_info(server: str) -> str:
    kubeconfig = f"apiVersion: v1\nclusters:\n- cluster:\n    server: {server}\n  name: ''\n"
    return json.dumps({"data": {"kubeconfig": kubeconfig}})


def test_where_cluster_info_sends_a_join_has_to_answer_as_well(tmp_path: Path) -> None:
    pair = authority().server("api.example.com")
    with socket.create_server((LOCAL, 0)) as closed:
        nobody = f"{LOCAL}:{closed.getsockname()[1]}"
    with server(pair, tmp_path, cluster_info(f"https://{nobody}")) as port:
        told = silent_endpoint(f"{LOCAL}:{port}")
    assert told == f"its cluster-info sends a join to '{nobody}', and there: Connection refused"
    with (
        server(pair, tmp_path) as other,
        server(pair, tmp_path, cluster_info(f"https://{LOCAL}:{other}")) as port,
    ):
        assert silent_endpoint(f"{LOCAL}:{port}") is None
    for text in ('{"kind": "Status", "code": 403}', "no words of an API server"):
        with server(pair, tmp_path, text) as port:
            assert silent_endpoint(f"{LOCAL}:{port}") is None


def test_a_load_balancer_without_control_planes_is_no_answer() -> None:
    with socket.create_server((LOCAL, 0)) as listener:
        port = listener.getsockname()[1]

        def hang_up() -> None:
            listener.accept()[0].close()

        threading.Thread(target=hang_up, daemon=True).start()
        assert silent_endpoint(f"{LOCAL}:{port}")
    assert silent_endpoint(f"{LOCAL}:{port}") == "Connection refused"


def test_names_that_nobody_knows_and_words_that_are_no_address_are_no_answer() -> None:
    assert silent_endpoint("lb.invalid:6443")
    assert silent_endpoint("lb:many")
    assert silent_endpoint("lb")
    assert silent_endpoint("[fd00::1:6443")
