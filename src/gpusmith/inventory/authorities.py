"""Certificates of a site's own authorities, as an inventory has them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from gpusmith.errors import InputError, Refusal
from gpusmith.inventory.labels import must_be
from gpusmith.inventory.templates import has_open
from gpusmith.probe import trust

VARIABLE = "gpusmith_ca_certificates"
HEAD = "# Written by gpusmith (role host_baseline); changes are overwritten."

NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")


def rules(name: str, value: Any) -> Iterator[Refusal]:
    """A mapping of names to certificates of authorities, one each, in PEM."""
    if value is None or (isinstance(value, str) and has_open(value)):
        return
    if not isinstance(value, Mapping):
        yield must_be(name, "a mapping of names to certificates", type(value).__name__)
        return
    for key, text in value.items():
        if not isinstance(key, str) or not NAME.fullmatch(key):
            yield must_be(name, "a mapping whose keys are names of small letters, digits and '-'", key)
        # A template that needs facts is judged when it is filled in.
        elif not (isinstance(text, str) and has_open(text)):
            yield from _certificate(f"{name}.{key}", text)


def _certificate(name: str, text: Any) -> Iterator[Refusal]:
    # Refusals are shown, so none repeats what may be a key.
    if "PRIVATE KEY" in str(text):
        yield Refusal(
            f"'{name}' has a private key, and everybody on a node could read it.",
            "Give the certificate alone.",
        )
        return
    found = _read(text)
    if len(found) != 1 or str(text).count("-----BEGIN ") != 1:
        seen = f"a text with {len(found)} of them" + (" and more" if found else "")
        yield must_be(name, "one certificate in PEM ('-----BEGIN CERTIFICATE-----' and so on)", seen)
    elif not _is_authority(found[0]):
        subject = found[0].subject.rfc4514_string()
        yield Refusal(
            f"'{name}' is the certificate of '{subject}', which is no authority.",
            "Give the certificate of the authority that signed it.",
        )


def _read(text: Any) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(str(text).encode())
    except ValueError:
        return []


def _is_authority(certificate: x509.Certificate) -> bool:
    """By its basic constraints; one of version 1 has none and may be an authority (RFC 5280, section 4.2.1.9)."""
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return certificate.version is x509.Version.v1


def texts(given: Mapping[str, Any] | None) -> dict[str, str]:
    """By name, what a file of it has: the certificate in the form that every program reads, and nothing else.

    Raises:
        InputError: the value is against `rules`, by who uses a role without the guard.
    """
    for refusal in rules(VARIABLE, given):
        raise InputError(refusal.message, refusal.hint)
    return {
        str(name): f"{HEAD}\n{_read(text)[0].public_bytes(Encoding.PEM).decode()}"
        for name, text in sorted((given or {}).items())
    }


def digests(given: Mapping[str, Any] | None) -> dict[str, str]:
    """By name, what `gpusmith.probe.trust` calls it."""
    return {name: trust.digest(text) for name, text in texts(given).items()}
