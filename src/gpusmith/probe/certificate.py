"""When a certificate expires, from its own bytes: nodes need have no openssl."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from datetime import datetime, timezone

SEQUENCE, UTC_TIME, GENERALIZED_TIME = 0x30, 0x17, 0x18
FORMATS = {UTC_TIME: "%y%m%d%H%M%SZ", GENERALIZED_TIME: "%Y%m%d%H%M%SZ"}


def expires(text: str) -> float | None:
    """When the first certificate of a PEM text stops to be valid, in seconds since 1970; None if there is none to be read."""
    body = re.search(r"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", text, re.DOTALL)
    if not body:
        return None
    try:
        return _not_after(base64.b64decode("".join(body.group(1).split()), validate=True))
    except (binascii.Error, IndexError, StopIteration, ValueError):
        return None


def _not_after(der: bytes) -> float:
    """Of a certificate: a sequence whose first member is one, of which the first that begins with a time is the validity."""
    (_tag, certificate) = next(_members(der))
    (_tag, signed) = next(_members(certificate))
    for tag, content in _members(signed):
        if tag == SEQUENCE and content[:1] and content[0] in FORMATS:
            _from, (kind, until) = _members(content)
            moment = datetime.strptime(until.decode("ascii"), FORMATS[kind]).replace(tzinfo=timezone.utc)
            return moment.timestamp()
    raise ValueError("no validity")


def _members(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Tags and contents of what follows each other in DER."""
    place = 0
    while place < len(der):
        tag, length, place = der[place], der[place + 1], place + 2
        if length & 0x80:
            size = length & 0x7F
            length, place = int.from_bytes(der[place : place + size], "big"), place + size
        if place + length > len(der):
            raise ValueError("cut off")
        yield tag, der[place : place + length]
        place += length
