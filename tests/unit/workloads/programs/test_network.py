"""The program that reaches a Service; the Service is a socket of this test, on this machine."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def reach(load: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The network program; its Service is a socket of this test, on this machine."""
    program = load("reach_service")
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(program, "PORT", server.getsockname()[1])
        yield program


def answers(*addresses: str) -> Any:
    rows = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in addresses]
    # create_connection asks as well, of an address: it gets it back.
    asked = socket.getaddrinfo

    def answer(name: str, port: int, *rest: Any, **more: Any) -> Any:
        return rows if name == "kubernetes.default.svc" else asked(name, port, *rest, **more)

    return answer


def test_network_names_what_it_reached(reach: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach.socket, "getaddrinfo", answers("127.0.0.1"))
    assert reach.work()["addresses"] == ["127.0.0.1"]


def test_network_without_dns_names_the_servers(reach: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    monkeypatch.setattr(reach, "nameservers", lambda: ["10.96.0.10"])
    monkeypatch.setattr(reach.socket, "getaddrinfo", fails)
    with pytest.raises(
        reach.ProgramError,
        match=r"does not resolve 'kubernetes.default.svc', it asks 10.96.0.10: .*Temporary",
    ):
        reach.work()


def test_network_without_a_way_names_the_address(reach: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    monkeypatch.setattr(reach, "PORT", port)
    monkeypatch.setattr(reach.socket, "getaddrinfo", answers("127.0.0.1"))
    with pytest.raises(reach.ProgramError, match=f"but does not reach it: 127.0.0.1 port {port}: .*refused"):
        reach.work()


def test_servers_are_read_as_the_resolver_reads_them(reach: Any, tmp_path: Path) -> None:
    conf = tmp_path / "resolv.conf"
    conf.write_text("# nameserver 1\nsearch a b\nnameserver 10.96.0.10\nnameserver\noptions ndots:5\n")
    assert reach.nameservers(str(conf)) == ["10.96.0.10"]
