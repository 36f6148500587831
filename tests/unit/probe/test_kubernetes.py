from __future__ import annotations

import base64
import datetime as dt
import hashlib
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from gpusmith.probe import kubernetes


def pem(der: bytes, width: int = 8) -> str:
    text = base64.b64encode(der).decode()
    lines = "\n".join(text[place : place + width] for place in range(0, len(text), width))
    return f"-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n"


def made(until: dt.datetime) -> str:
    """A certificate as kubelets have them."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [
            x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "system:nodes"),
            x509.NameAttribute(x509.NameOID.COMMON_NAME, "system:node:gpu-1"),
        ]
    )
    begun = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 2**150, begun, until)
    key_text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    return (builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM) + key_text).decode()


def test_a_certificate_is_known_however_it_is_wrapped(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"one authority").hexdigest()
    other = hashlib.sha256(b"another").hexdigest()
    inside = base64.b64encode((pem(b"one authority") + pem(b"another")).encode()).decode()
    assert kubernetes.authorities(f"clusters:\n- cluster:\n    certificate-authority-data: {inside}\n") == (
        digest,
        other,
    )
    (tmp_path / "ca.crt").write_text(pem(b"one authority", 64))
    assert kubernetes.authorities(f'    certificate-authority: "{tmp_path}/ca.crt"\n') == (digest,)


def test_what_is_no_certificate_is_none() -> None:
    assert kubernetes.authorities("") == ()
    assert kubernetes.authorities("certificate-authority-data: abc") == ()
    assert kubernetes.authorities("certificate-authority: /nowhere/ca.crt") == ()
    assert kubernetes.digests("-----BEGIN CERTIFICATE-----\n??\n-----END CERTIFICATE-----") == ()


@pytest.mark.parametrize(
    ("words", "folder"),
    [
        ("/usr/bin/kubelet --config=/var/lib/kubelet/config.yaml", ""),
        ("/usr/bin/kubelet --config-dir=/etc/kubernetes/kubelet.conf.d/", "/etc/kubernetes/kubelet.conf.d"),
        ("kubelet --config-dir=/a --v=2 --config-dir /b", "/b"),
        ("kubelet --config-dir=", ""),
        ("/bin/sh /opt/start-kubelet", None),
        ("", None),
    ],
)
def test_the_folder_of_settings_is_what_the_kubelet_was_started_with(words: str, folder: str | None) -> None:
    assert kubernetes.config_dir(words.replace(" ", "\0") + "\0") == folder


def test_the_policies_whose_state_a_kubelet_keeps(tmp_path: Path) -> None:
    (tmp_path / "cpu_manager_state").write_text(
        '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'
    )
    (tmp_path / "memory_manager_state").write_text("[]")
    found = [kubernetes.kept_policy(name, str(tmp_path)) for name in ("cpu", "memory", "nothing")]
    assert found == ["none", None, None]
    (tmp_path / "cpu_manager_state").write_text("")
    assert kubernetes.kept_policy("cpu", str(tmp_path)) is None


def test_the_end_of_the_client_s_certificate_is_read_from_its_file(tmp_path: Path) -> None:
    until = dt.datetime(2026, 11, 23, 11, 59, 7, tzinfo=dt.UTC)
    (tmp_path / "current.pem").write_text(made(until))
    (tmp_path / "none.pem").write_text("-----BEGIN CERTIFICATE-----\n??\n-----END CERTIFICATE-----\n")
    assert (
        kubernetes.client_expires(kubernetes.client(f"    client-certificate: {tmp_path}/current.pem\n"))
        == until.timestamp()
    )
    # The authority is no client.
    assert (
        kubernetes.client_expires(kubernetes.client(f"    certificate-authority: {tmp_path}/current.pem\n"))
        is None
    )
    for name in ("none.pem", "nowhere.pem"):
        assert (
            kubernetes.client_expires(kubernetes.client(f"    client-certificate: {tmp_path}/{name}\n"))
            is None
        )


def test_the_node_is_the_one_that_the_running_kubelet_is(tmp_path: Path) -> None:
    """kubespray has the name in kubelet.env, kubeadm's users in /etc/default/kubelet: neither is a file of kubeadm's."""
    started = "/usr/bin/kubelet\0--config=/a\0--hostname-override=gpu-1.pod7.example\0"
    (tmp_path / "current.pem").write_text(made(dt.datetime(2030, 1, 1, tzinfo=dt.UTC)))
    certificate = kubernetes.client(f"    client-certificate: {tmp_path}/current.pem\n")
    flags = 'KUBELET_KUBEADM_ARGS="--hostname-override=gpu-9"'
    assert kubernetes.node_name(started, certificate, flags, "ip-10-0-3-4") == "gpu-1.pod7.example"
    assert kubernetes.node_name("/usr/bin/kubelet\0", certificate, flags, "ip-10-0-3-4") == "gpu-1"
    assert kubernetes.node_name("", {}, flags, "ip-10-0-3-4") == "gpu-9"
    assert kubernetes.node_name("", {}, "", "IP-10") == "ip-10"
    assert kubernetes.client_name({"subject": ((("commonName", "kubernetes-admin"),),)}) is None
