"""Who answers where nodes are to join, by real TLS on this machine."""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path

import pytest

from gpusmith.cluster.endpoint import Answer, Found, Place, ask, place
from tests.authorities import Authority, authority
from tests.unit.tls import LOCAL, server


def answer(signer: Authority, name: str, trusted: Authority, folder: Path) -> Answer:
    """What is thought of a server with a certificate for a name."""
    with server(signer.server(name), folder) as port:
        return ask(Place(LOCAL, port), trusted.certificate)


def test_the_certificate_tells_who_answers(tmp_path: Path) -> None:
    # As kubeadm does it, authorities of all clusters have the same name.
    mine, other = authority("kubernetes"), authority("kubernetes")
    assert answer(mine, LOCAL, mine, tmp_path).found is Found.SAME
    nameless = answer(mine, "cp-1", mine, tmp_path)
    assert nameless.found is Found.NAMELESS
    assert LOCAL in nameless.reason
    assert answer(other, LOCAL, mine, tmp_path).found is Found.OTHER


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
