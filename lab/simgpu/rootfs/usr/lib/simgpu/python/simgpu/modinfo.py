"""What a module's file says about itself."""

from __future__ import annotations

import struct
from pathlib import Path


def modinfo(path: Path) -> dict[str, str]:
    """Fields of the section .modinfo of an ELF object (64 bit, little endian)."""
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        return {}
    section_offset = struct.unpack_from("<Q", data, 40)[0]
    size, count, names_index = struct.unpack_from("<HHH", data, 58)
    headers = [struct.unpack_from("<IIQQQQ", data, section_offset + index * size) for index in range(count)]
    names = headers[names_index][4]
    for name, _type, _flags, _address, offset, length in headers:
        if data[names + name : names + name + 9] == b".modinfo\0":
            section = data[offset : offset + length]
            fields = (item.decode(errors="replace") for item in section.split(b"\0") if item)
            return dict(item.split("=", 1) for item in fields if "=" in item)
    return {}


def is_simulated(path: Path) -> bool:
    """Whether a file is a module of the simulated kernel."""
    return path.is_file() and modinfo(path).get("gpusmith_simulated") == "1"
