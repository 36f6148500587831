"""Authorities of a site, for repositories that are asked before the machine's trust store has them."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import os
from pathlib import Path
from typing import Optional

# By which an action plugin tells a module: certificates in PEM.
ENVIRONMENT = "GPUSMITH_CA_CERTIFICATES"
# What the machine trusts, with update-ca-certificates(8) and with update-ca-trust(8).
STORES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")


def bundle(folder: Path) -> Optional[Path]:
    """A file in a folder with what the machine trusts and the site's authorities; None if a module was told of none."""
    told = os.environ.get(ENVIRONMENT)
    if not told:
        return None
    there = [Path(path).read_text(encoding="utf-8") for path in STORES if Path(path).is_file()]
    file = folder / "authorities.pem"
    file.write_text("\n".join([*there[:1], told]), encoding="utf-8")
    return file
