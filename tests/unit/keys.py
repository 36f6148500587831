"""Armored public keys for tests: well formed, and nobody's."""

from __future__ import annotations

import base64

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.openpgp import crc24


def armored(created: int = 1) -> str:
    """A public key of version 4 with a number for its content."""
    body = b"\x04" + created.to_bytes(4, "big") + b"\x16" + bytes(40)
    packet = bytes([0xC6, len(body)]) + body
    text = base64.b64encode(packet).decode()
    check = base64.b64encode(crc24(packet)).decode()
    return f"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n{text}\n={check}\n-----END PGP PUBLIC KEY BLOCK-----\n"


KEY = armored()
OTHER_KEY = armored(2)
