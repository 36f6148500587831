"""When certificates expire, against a library that reads them whole."""

from __future__ import annotations

import datetime as dt

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from gpusmith.probe.certificate import expires


def made(until: dt.datetime, organisation: str = "system:nodes") -> str:
    """A certificate as kubelets have them, behind a key that nobody is to take for it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [
            x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, organisation),
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
    return (key_text + builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)).decode()


@pytest.mark.parametrize(
    "until",
    [
        dt.datetime(2026, 11, 23, 11, 59, 7, tzinfo=dt.UTC),
        dt.datetime(2050, 1, 1, tzinfo=dt.UTC),
        dt.datetime(9999, 12, 31, tzinfo=dt.UTC),
    ],
    ids=["two digits of the year", "four digits", "never"],
)
def test_the_end_is_read_in_both_forms(until: dt.datetime) -> None:
    assert expires(made(until)) == until.timestamp()
    # Lengths of more than one byte.
    assert expires(made(until, "o" * 60)) == until.timestamp()


def test_what_is_no_certificate_has_no_end() -> None:
    whole = made(dt.datetime(2026, 11, 23, tzinfo=dt.UTC))
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    cut = whole.partition(begin)[2].split("\n")[1]
    for text in (
        "",
        f"{begin}\n??\n{end}",
        f"{begin}\n{cut}\n{end}",
        f"{begin}\nMAA=\n{end}",
        f"{begin}\n{end}",
    ):
        assert expires(text) is None
