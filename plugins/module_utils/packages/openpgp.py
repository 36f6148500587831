"""Fingerprints of OpenPGP keys, without gpg, which a node need not have."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from typing import List, Tuple

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.base import PackageError


def fingerprints(armored: str) -> List[str]:
    """Fingerprints of the primary keys in an armored block, in capitals.

    Raises:
        PackageError: the block is damaged, or holds no key.
    """
    found: List[str] = []
    block = re.compile(
        r"-----BEGIN PGP PUBLIC KEY BLOCK-----(.*?)-----END PGP PUBLIC KEY BLOCK-----", re.DOTALL
    )
    try:
        for body in block.findall(armored.replace("\r", "")):
            # Headers end with an empty line; the checksum's line begins with '='.
            text = re.sub(r"\A.*?\n[ \t]*\n", "", body, count=1, flags=re.DOTALL)
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            packets = base64.b64decode(
                "".join(line for line in lines if not line.startswith("=")), validate=True
            )
            for line in lines:
                if line.startswith("=") and base64.b64decode(line[1:], validate=True) != crc24(packets):
                    raise ValueError("its checksum is that of other content")
            found += [_fingerprint(content) for tag, content in _packets(packets) if tag == 6]
        if not found:
            raise ValueError("there is no key in it")
    except (binascii.Error, IndexError, ValueError) as error:
        raise PackageError(
            f"The armored public key is damaged ({error}). Copy it anew into the inventory."
        ) from error
    return found


def crc24(data: bytes) -> bytes:
    """CRC-24 of RFC 9580, section 6.1.1, which tells a slip in copying from a key."""
    value = 0xB704CE
    for byte in data:
        value ^= byte << 16
        for _ in range(8):
            value <<= 1
            if value & 0x1000000:
                value ^= 0x1864CFB
    return value.to_bytes(3, "big")


def _packets(data: bytes) -> List[Tuple[int, bytes]]:
    """Packets of an OpenPGP message (RFC 9580, section 4) by tag."""
    found, at = [], 0
    while at < len(data):
        header = data[at]
        if not header & 0x80:
            raise ValueError("no packet begins where one should")
        at += 1
        if header & 0x40:
            tag, first = header & 0x3F, data[at]
            if first < 192:
                size, at = first, at + 1
            elif first < 224:
                size, at = ((first - 192) << 8) + data[at + 1] + 192, at + 2
            else:
                size, at = int.from_bytes(data[at + 1 : at + 5], "big"), at + 5
        else:
            tag, width = (header >> 2) & 0x0F, 1 << (header & 3)
            size, at = int.from_bytes(data[at : at + width], "big"), at + width
        if at + size > len(data):
            raise ValueError("a packet is cut off")
        found.append((tag, data[at : at + size]))
        at += size
    return found


def _fingerprint(key: bytes) -> str:
    if key[0] == 4:
        data = b"\x99" + len(key).to_bytes(2, "big") + key
        try:
            # What version 4 is made with. A system in FIPS mode has no other SHA-1.
            return hashlib.sha1(data, usedforsecurity=False).hexdigest().upper()
        except TypeError:
            return hashlib.sha1(data).hexdigest().upper()  # noqa: S324 - Python 3.8
    return hashlib.sha256(bytes([0x95 + key[0]]) + len(key).to_bytes(4, "big") + key).hexdigest().upper()
