"""Certificates of a site's authorities: our files, and whether the trust store has them."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import glob
import re

from gpusmith.probe.files import read_text

# What role host_baseline writes, with update-ca-certificates(8) and with update-ca-trust(8).
ANCHORS = (
    "/usr/local/share/ca-certificates/gpusmith-*.crt",
    "/etc/pki/ca-trust/source/anchors/gpusmith-*.pem",
)
# What programs read, in the order in which Go looks (crypto/x509, root_linux.go).
BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")


def bodies(text: str) -> set[str]:
    """Certificates of a text in PEM, without blanks and line breaks."""
    found = re.findall(r"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", text, re.DOTALL)
    return {re.sub(r"\s", "", body) for body in found}


def paths(patterns: tuple[str, ...] = ANCHORS) -> list[str]:
    """Of our files."""
    return sorted(path for pattern in patterns for path in glob.glob(pattern))


def gather(patterns: tuple[str, ...] = ANCHORS, bundles: tuple[str, ...] = BUNDLES) -> tuple[str, ...]:
    """Paths of our files whose certificates the trust store has."""
    ours = paths(patterns)
    if not ours:
        return ()
    trusted = {body for path in bundles for body in bodies(read_text(path) or "")}
    return tuple(path for path in ours if bodies(read_text(path) or "") <= trusted)
