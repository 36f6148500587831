"""Authorities of a site, for repositories that are asked before the machine's trust store has them."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import os
from pathlib import Path
from typing import Callable, Optional

# By which an action plugin tells a module: certificates in PEM.
ENVIRONMENT = "GPUSMITH_CA_CERTIFICATES"
# What the machine trusts, with update-ca-certificates(8) and with update-ca-trust(8).
STORES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
)


def bundle(folder: Path, own: Callable[[], str] = str) -> Optional[Path]:
    """A file in a folder with what the machine trusts and the site's authorities; None if a module was told of none.

    Args:
        folder: for the file.
        own: says which file the package manager goes by already, instead of the trust store; empty for none.
    """
    told = os.environ.get(ENVIRONMENT)
    if not told:
        return None
    # Others may have comments in any encoding.
    there = [Path(path).read_bytes() for path in (own(), *STORES) if path and Path(path).is_file()]
    file = folder / "authorities.pem"
    file.write_bytes(b"\n".join([*there[:1], os.fsencode(told)]))
    return file
