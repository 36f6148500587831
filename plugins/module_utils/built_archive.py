"""Archives of kernel modules, of the form that DKMS itself reads and writes."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import gzip
import hashlib
import io
import re
import tarfile
from typing import Any, Mapping

# As in DKMS's own archives. Up to 2.8 it refuses those without the version of its database.
MAIN, STUB, DATABASE = "dkms_main_tree", "dkms_binaries_only", "2.0.0\n"


def digest(data: bytes) -> str:
    """SHA-256, in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def place(kernel: str, machine: str) -> str:
    """Where an archive has what was built for a kernel and a kind of machine."""
    return "{}/{}/{}".format(MAIN, kernel, machine)


def is_expected(path: str, modules: str) -> bool:
    """Whether an archive may have this file, beside the modules in one folder."""
    ours = r"{}[\w-]+\.ko|{}/dkms_dbversion|{}/[\w.]+|[\w./+~-]+/log/make\.log"
    return ".." not in path and bool(re.fullmatch(ours.format(re.escape(modules), MAIN, STUB), path))


def write_archive(target: Any, contents: Mapping[str, bytes]) -> None:
    """A packed archive; the same contents make the same bytes."""
    stream = gzip.GzipFile(fileobj=target, mode="wb", compresslevel=6, mtime=0)
    with stream, tarfile.open(fileobj=stream, mode="w") as packed:
        for name, data in sorted(contents.items()):
            member = tarfile.TarInfo("./" + name)
            member.size, member.mode = len(data), 0o644
            packed.addfile(member, io.BytesIO(data))
