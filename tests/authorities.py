"""Certificates for tests, of keys that are made for each."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Pair:
    """A certificate with its key, both in PEM."""

    certificate: str
    key: str


@dataclass(frozen=True)
class Authority:
    """One that signs itself."""

    name: x509.Name
    secret: ec.EllipticCurvePrivateKey
    certificate: str

    def server(self, *names: str) -> Pair:
        """A certificate for a server with names or addresses."""
        secret = ec.generate_private_key(ec.SECP256R1())
        told = x509.SubjectAlternativeName([_general_name(each) for each in names])
        found = _build("server", self.name, secret, ca=False).add_extension(told, critical=False)
        signed = found.sign(self.secret, hashes.SHA256()).public_bytes(Encoding.PEM).decode()
        return Pair(signed, _text(secret))


def authority(name: str = "a site's authority") -> Authority:
    """A new one."""
    secret = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    signed = _build(name, subject, secret, ca=True).sign(secret, hashes.SHA256())
    return Authority(subject, secret, signed.public_bytes(Encoding.PEM).decode())


def _general_name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _text(secret: ec.EllipticCurvePrivateKey) -> str:
    return secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _build(
    name: str, issuer: x509.Name, secret: ec.EllipticCurvePrivateKey, ca: bool
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(issuer)
        .public_key(secret.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    )
