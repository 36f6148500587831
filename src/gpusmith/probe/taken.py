"""Kernel modules that another node has built (module built_modules notes them), and what is there of them now."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import glob
import hashlib
import json
import os
from dataclasses import dataclass

from gpusmith.probe.module_file import modinfo

NOTES = "/var/lib/gpusmith/modules"
SCHEMA = "gpusmith.modules/1"


@dataclass(frozen=True)
class TakenFile:
    """A module's file.

    Attributes:
        path: where it was put.
        is_there: whether there is a file.
        same: whether it is, byte for byte, what was put there.
        version: what it says of itself now.
        vermagic: likewise, of the kernel that it is for.
    """

    path: str
    is_there: bool = False
    same: bool = False
    version: str | None = None
    vermagic: str | None = None


@dataclass(frozen=True)
class Taken:
    """The driver's modules for one kernel.

    Attributes:
        kernel: release.
        version: of the driver.
        builder: the node that compiled them.
        signer: who signed them; empty if nobody did.
    """

    kernel: str
    version: str
    builder: str
    signer: str = ""
    files: tuple[TakenFile, ...] = ()


def _file(root: str, path: str, digest: str) -> TakenFile:
    try:
        with open(root + path, "rb") as file:
            data = file.read()
    except OSError:
        return TakenFile(path)
    said = modinfo(data)
    same = hashlib.sha256(data).hexdigest() == digest
    return TakenFile(path, True, same, said.get("version"), said.get("vermagic"))


def gather(errors: list[str], root: str = "") -> tuple[Taken, ...]:
    """What is noted, of kernels that are still there."""
    found = []
    for name in sorted(glob.glob(f"{root}{NOTES}/*.json")):
        try:
            with open(name, encoding="utf-8") as file:
                note = json.load(file)
            if note["schema"] != SCHEMA or not os.path.isdir(f"{root}/lib/modules/{note['kernel']}"):
                continue
            files = tuple(_file(root, row["path"], row["sha256"]) for row in note["files"])
            found.append(
                Taken(note["kernel"], note["version"], note["builder"], note.get("signer", ""), files)
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            errors.append(f"taken modules: '{name}' cannot be read: {error}")
    return tuple(found)
