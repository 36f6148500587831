"""Who answers where nodes are to join, by real TLS on this machine."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gpusmith.cluster.endpoint import Found, Place, ask, place
from tests.authorities import Authority, authority

LOCAL = "127.0.0.1"
Serve = Callable[[Authority, str], Place]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Start a server with a certificate that an authority signs for a name."""
    listeners: list[socket.socket] = []

    def start(signer: Authority, name: str) -> Place:
        pair = signer.server(name)
        file = tmp_path / f"{len(listeners)}.pem"
        file.write_text(pair.certificate + pair.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        listener = socket.create_server((LOCAL, 0))
        listeners.append(listener)

        def answer() -> None:
            try:
                connection, _unused = listener.accept()
                context.wrap_socket(connection, server_side=True).close()
            except OSError:
                return

        threading.Thread(target=answer, daemon=True).start()
        return Place(LOCAL, listener.getsockname()[1])

    yield start
    for listener in listeners:
        listener.close()


def test_the_certificate_tells_who_answers(serve: Serve) -> None:
    # As kubeadm does it, authorities of all clusters have the same name.
    mine, other = authority("kubernetes"), authority("kubernetes")
    assert ask(serve(mine, LOCAL), mine.certificate).found is Found.SAME
    answer = ask(serve(mine, "cp-1"), mine.certificate)
    assert answer.found is Found.NAMELESS
    assert LOCAL in answer.reason
    assert ask(serve(other, LOCAL), mine.certificate).found is Found.OTHER


def test_nobody_answers_at_a_port_that_is_closed_or_silent() -> None:
    trusted = authority().certificate
    with closing(socket.create_server((LOCAL, 0))) as listener:
        where = Place(LOCAL, listener.getsockname()[1])
        assert ask(where, trusted, timeout_s=0.2).found is Found.NOBODY
    assert ask(where, trusted).found is Found.NOBODY


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        ("LB.example.com:443", "lb.example.com:443"),
        ("lb.example.com.", "lb.example.com:6443"),
        ("https://lb.example.com/", "lb.example.com:443"),
        ("10.0.0.1:6443", "10.0.0.1:6443"),
        ("https://[FD00:0:0::1]:6443", "[fd00::1]:6443"),
        ("fd00::1:6443", "None"),
        ("lb:many", "None"),
        ("", "None"),
    ],
)
def test_one_place_is_one_place_however_it_is_written(written: str, seen: str) -> None:
    assert str(place(written)) == seen
