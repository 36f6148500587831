"""What a kernel module's file says of itself, read without another program."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import struct

SIGNED = b"~Module signature appended~\n"
# The kernel's struct module_signature: algorithm, hash, kind of identifier, lengths of signer, key identifier and signature.
TRAILER = struct.Struct(">5B3xI")
HEADER = struct.Struct("<16xHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")


def _sections(data: bytes) -> dict[bytes, bytes]:
    """Contents of a 64-bit ELF file's sections by name."""
    if data[:5] != b"\x7fELF\x02":
        return {}
    fields = HEADER.unpack_from(data)
    begin, size, count, names = fields[5], fields[10], fields[11], fields[12]
    rows = [SECTION.unpack_from(data, begin + number * size) for number in range(count)]
    strings = data[rows[names][4] : rows[names][4] + rows[names][5]]
    found = {}
    for row in rows:
        end = strings.index(b"\0", row[0])
        found[strings[row[0] : end]] = data[row[4] : row[4] + row[5]]
    return found


def modinfo(data: bytes) -> dict[str, str]:
    """Fields of a module, the first value of each; empty if it is none.

    Args:
        data: the file, not compressed.
    """
    try:
        text = _sections(data).get(b".modinfo", b"")
    except (struct.error, ValueError, IndexError):
        return {}
    found: dict[str, str] = {}
    for field in text.split(b"\0"):
        key, separator, value = field.partition(b"=")
        if separator:
            found.setdefault(key.decode("ascii", "replace"), value.decode("utf-8", "replace"))
    return found


def bare(data: bytes) -> bytes:
    """The module without the signatures behind it."""
    while data.endswith(SIGNED):
        end = len(data) - len(SIGNED) - TRAILER.size
        if end < 0:
            return data
        _algorithm, _hash, _kind, signer, key, length = TRAILER.unpack_from(data, end)
        begin = end - length - signer - key
        if begin < 0:
            return data
        data = data[:begin]
    return data
