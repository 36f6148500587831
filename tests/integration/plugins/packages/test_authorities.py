"""A repository whose server has a certificate of a site's authority, asked by the machine's own apt."""

from __future__ import annotations

import functools
import http.server
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import authorities
from ansible_collections.gpusmith.gpu.plugins.modules import preflight

from tests.authorities import Authority, authority

from .conftest import System
from .test_preflight_module import asks


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_words: Any) -> None:
        """Nobody reads it."""


@pytest.fixture(scope="module")
def site() -> Authority:
    return authority()


@pytest.fixture
def address(site: Authority, system: System, tmp_path: Path) -> Iterator[str]:
    """Of a server of the repository."""
    (uri,) = system.given["uris"]
    pair = site.server("127.0.0.1")
    certificate, key = tmp_path / "server.pem", tmp_path / "server.key"
    certificate.write_text(pair.certificate)
    key.write_text(pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    handler = functools.partial(Quiet, directory=uri.removeprefix("file:"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_repository_is_asked_before_the_trust_store_has_its_authority(
    system: System, address: str, site: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"nvidia_container_toolkit": asks(system, uris=[address])["nvidia_container_toolkit"]}
    untold = preflight.ask_all(system.apt, asked, {}).repositories["nvidia_container_toolkit"]
    assert "ertificate" in untold["error"]
    monkeypatch.setenv(authorities.ENVIRONMENT, f"# a comment\n{site.certificate}")
    told = preflight.ask_all(system.apt, asked, {})
    assert told.repositories["nvidia_container_toolkit"]["error"] is None
    assert told.simulation is not None
    assert told.simulation["plan"]["installed"]["kit-library"] == "1.20.1-1"


def test_what_apt_goes_by_already_counts_instead_of_the_store(
    system: System, address: str, site: Authority, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = tmp_path / "own.pem"
    own.write_text(site.certificate)
    settings = tmp_path / "apt.conf"
    settings.write_text(f'Acquire::https::CaInfo "{own}";\n')
    monkeypatch.setenv("APT_CONFIG", str(settings))
    monkeypatch.setenv(authorities.ENVIRONMENT, authority("another").certificate)
    asked = {"nvidia_container_toolkit": asks(system, uris=[address])["nvidia_container_toolkit"]}
    assert preflight.ask_all(system.apt, asked, {}).repositories["nvidia_container_toolkit"]["error"] is None


def test_what_the_machine_trusts_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "store.crt"
    store.write_text("OF THE SYSTEM")
    monkeypatch.setattr(authorities, "STORES", (str(tmp_path / "none"), str(store)))
    monkeypatch.delenv(authorities.ENVIRONMENT, raising=False)
    assert authorities.bundle(tmp_path) is None
    monkeypatch.setenv(authorities.ENVIRONMENT, "OF THE SITE")
    file = authorities.bundle(tmp_path)
    assert file is not None
    assert file.read_text() == "OF THE SYSTEM\nOF THE SITE"
