"""Certificates of a site's authorities: those that we brought, and whether the trust store has them."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import glob
import hashlib
import os
import re
from dataclasses import dataclass, field
from typing import Mapping

from gpusmith.probe.files import read_text
from gpusmith.probe.managed import MARK

PREFIX = "gpusmith-"
# Where update-ca-certificates(8) and update-ca-trust(8) look.
FOLDERS = ("/usr/local/share/ca-certificates", "/etc/pki/ca-trust/source/anchors")
# What programs read, in the order in which Go looks (crypto/x509, root_linux.go).
BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
)
# Module trust_store writes it whenever it changes the store: who has started before does not know what the store has now.
STAMP = "/var/lib/gpusmith/trust-store"
PENDING = "pending\n"


@dataclass(frozen=True)
class Trust:
    """What we brought.

    Attributes:
        authorities: by the name of one, the digest of its certificate; empty where the trust store has it not.
        pending: whether a change of the store was begun and did not end.
    """

    authorities: Mapping[str, str] = field(default_factory=dict)
    pending: bool = False


def bodies(text: str) -> set[str]:
    """Certificates of a text in PEM, without blanks and line breaks."""
    found = re.findall(r"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", text, re.DOTALL)
    return {re.sub(r"\s", "", body) for body in found}


def digest(text: str) -> str:
    """Of the certificate of a file, whatever stands around it."""
    return hashlib.sha256("".join(sorted(bodies(text))).encode()).hexdigest()


def files() -> dict[str, str]:
    """Content by path of those that say that they are ours."""
    paths = [path for folder in FOLDERS for path in glob.glob(os.path.join(folder, f"{PREFIX}*"))]
    found = {path: read_text(path) or "" for path in sorted(paths)}
    return {path: text for path, text in found.items() if text.startswith(MARK.decode())}


def name_of(path: str) -> str:
    """Of the authority of a file."""
    return os.path.splitext(os.path.basename(path))[0][len(PREFIX) :]


def gather() -> Trust:
    """Compare our files with the store."""
    ours = files()
    stored = {body for path in BUNDLES for body in bodies(read_text(path) or "")} if ours else set()
    found = {
        name_of(path): digest(text) if bodies(text) and bodies(text) <= stored else ""
        for path, text in ours.items()
    }
    # `read_text` strips.
    return Trust(found, (read_text(STAMP) or "") == PENDING.strip())
