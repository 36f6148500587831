"""Certificates and keys of kubeconfigs never reach the disk, and every kind of credential that a kubeconfig has still works."""

from __future__ import annotations

import base64
import datetime as dt
import http.server
import ipaddress
import json
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from gpusmith.cluster import memory_files
from gpusmith.cluster.api import Cluster
from gpusmith.cluster.retries import ONE_TRY
from gpusmith.errors import ToolError

NAME = "kubernetes.test"
Issuer = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]


def _certificate(
    name: str,
    issuer: Issuer | None,
    key: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    now = dt.datetime.now(dt.UTC)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    alternatives = [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))] if name == "server" else []
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer[0].subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME), *alternatives]), critical=False)
        .sign(issuer[1] if issuer else key, hashes.SHA256())
    )


def _text(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


@dataclass(frozen=True)
class Identity:
    """Certificate and private key in PEM."""

    certificate: str
    key: str

    @classmethod
    def make(cls, name: str, issuer: Issuer) -> Identity:
        key = ec.generate_private_key(ec.SECP256R1())
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return cls(_text(_certificate(name, issuer, key)), private.decode())


@dataclass
class ApiServer:
    """An API server with TLS that asks for a client's certificate, and what it saw of the last client."""

    authority: str
    client: Identity
    port: int
    seen: dict[str, Any] = field(default_factory=dict)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    folder = tmp_path_factory.mktemp("api")
    key = ec.generate_private_key(ec.SECP256R1())
    authority = _certificate("authority", None, key)
    server = Identity.make("server", (authority, key))
    for name, text in {"ca": _text(authority), "crt": server.certificate, "key": server.key}.items():
        (folder / name).write_text(text)
    told = ApiServer(_text(authority), Identity.make("admin", (authority, key)), 0)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            connection = self.connection
            assert isinstance(connection, ssl.SSLSocket)
            certificate: Any = connection.getpeercert() or {}
            told.seen["user"] = [row[0][1] for row in certificate.get("subject", ())]
            told.seen["authorization"] = self.headers.get("Authorization")
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: Any) -> None:
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "crt", folder / "key")
    context.load_verify_locations(folder / "ca")
    context.verify_mode = ssl.CERT_OPTIONAL
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    web.daemon_threads = True
    web.socket = context.wrap_socket(web.socket, server_side=True)
    told.port = web.server_port
    threading.Thread(target=web.serve_forever, args=(0.01,), daemon=True).start()
    yield told
    web.shutdown()
    web.server_close()


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary folder, of this process and of those that it starts."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def _inline(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


Kubeconfig = tuple[dict[str, Any], dict[str, Any]]
"""Its cluster and its user."""


def inline(api: ApiServer, _folder: Path) -> Kubeconfig:
    user = {
        "client-certificate-data": _inline(api.client.certificate),
        "client-key-data": _inline(api.client.key),
    }
    return {"certificate-authority-data": _inline(api.authority)}, user


def on_disk(api: ApiServer, folder: Path) -> Kubeconfig:
    files = {"ca.crt": api.authority, "admin.crt": api.client.certificate, "admin.key": api.client.key}
    for name, text in files.items():
        (folder / name).write_text(text)
    return {"certificate-authority": "ca.crt"}, {"client-certificate": "admin.crt", "client-key": "admin.key"}


def unverified(api: ApiServer, folder: Path) -> Kubeconfig:
    return {"insecure-skip-tls-verify": True}, inline(api, folder)[1]


def by_server_name(api: ApiServer, folder: Path) -> Kubeconfig:
    cluster, user = inline(api, folder)
    return {**cluster, "tls-server-name": NAME}, user


def _plugin(api: ApiServer, folder: Path, status: dict[str, str]) -> Kubeconfig:
    version = "client.authentication.k8s.io/v1"
    answer = folder / "answer"
    answer.write_text(json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status}))
    wanted = {"apiVersion": version, "command": "cat", "args": [str(answer)]}
    return {"certificate-authority-data": _inline(api.authority)}, {"exec": wanted}


def plugin_with_certificate(api: ApiServer, folder: Path) -> Kubeconfig:
    return _plugin(
        api, folder, {"clientCertificateData": api.client.certificate, "clientKeyData": api.client.key}
    )


def plugin_with_token(api: ApiServer, folder: Path) -> Kubeconfig:
    return _plugin(api, folder, {"token": "abc"})


def token(api: ApiServer, _folder: Path) -> Kubeconfig:
    return {"certificate-authority-data": _inline(api.authority)}, {"token": "abc"}


def token_file(api: ApiServer, folder: Path) -> Kubeconfig:
    (folder / "token").write_text("abc")
    return {"certificate-authority-data": _inline(api.authority)}, {"tokenFile": "token"}


def password(api: ApiServer, _folder: Path) -> Kubeconfig:
    return {"certificate-authority-data": _inline(api.authority)}, {"username": "u", "password": "p"}


def written(api: ApiServer, folder: Path, kind: Callable[[ApiServer, Path], Kubeconfig]) -> str:
    cluster, user = kind(api, folder)
    path = folder / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "clusters": [
                    {"name": "c", "cluster": {"server": f"https://127.0.0.1:{api.port}", **cluster}}
                ],
                "users": [{"name": "u", "user": user}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    return str(path)


CERTIFICATES = [inline, on_disk, unverified, by_server_name, plugin_with_certificate]
BEARERS = [plugin_with_token, token, token_file]


@pytest.mark.parametrize("kind", [*CERTIFICATES, *BEARERS, password])
def test_every_credential_works_and_none_is_written(
    api: ApiServer, tmp_path: Path, temporary: Path, kind: Callable[[ApiServer, Path], Kubeconfig]
) -> None:
    api.seen.clear()
    assert Cluster(written(api, tmp_path, kind), ONE_TRY).get("/api/v1/nodes") == {}
    assert api.seen["user"] == (["admin"] if kind in CERTIFICATES else [])
    if kind in BEARERS:
        assert api.seen["authorization"] == "Bearer abc"
    assert list(temporary.iterdir()) == []


def test_a_worker_that_is_forked_later_connects_too(api: ApiServer, tmp_path: Path, temporary: Path) -> None:
    cluster = Cluster(written(api, tmp_path, inline), ONE_TRY)
    child = os.fork()
    if child == 0:
        # As Ansible's workers end: without the functions that Python calls at its exit.
        os._exit(0 if cluster.get("/api/v1/nodes") == {} else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(("end", "code"), [("sys.exit(3)", 3), ("os.kill(os.getpid(), 9)", -signal.SIGKILL)])
def test_nothing_stays_of_a_run_that_fails_or_is_killed(
    api: ApiServer, tmp_path: Path, temporary: Path, end: str, code: int
) -> None:
    program = (
        "import os, sys; from gpusmith.cluster.api import Cluster\n"
        f"assert Cluster({written(api, tmp_path, inline)!r}).get('/api/v1/nodes') == {{}}\n{end}"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == code
    assert list(temporary.iterdir()) == []


def test_a_client_that_writes_them_in_another_way_is_refused(
    api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kubernetes.config import kube_config

    monkeypatch.delattr(kube_config, memory_files.WRITER)
    with pytest.raises(ToolError, match=r"would leave private keys in the temporary folder.*make setup"):
        Cluster(written(api, tmp_path, inline))
