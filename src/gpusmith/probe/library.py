"""The driver's user libraries and tools."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import os
import platform
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpusmith.probe.commands import Command, find_program

LIBRARY_FOLDERS = ("/usr/lib/%s-linux-gnu", "/usr/lib64", "/usr/lib", "/lib64", "/usr/local/nvidia/lib64")

# Where operators mount the root of a container that has the driver; only pods that look at machines of others name it.
CONTAINER = "GPUSMITH_DRIVER_ROOT"


@dataclass(frozen=True)
class LibraryFile:
    """The file that programs get as one of the driver's libraries.

    Attributes:
        fault: why it cannot be loaded; None if nothing speaks against it.
        shadows: files of the same name that they do not get.
    """

    path: str | None
    fault: str | None
    shadows: tuple[str, ...]


@dataclass(frozen=True)
class Library:
    """Libraries by the names of their files.

    Attributes:
        files: by 'nvidia-ml' and 'cuda'; None if they could not be looked for.
        nvidia_smi: path of the program; None if there is none.
        simulated: whether the loaded library carries the simulation's marker; None if no library could be loaded.
        container: root of the container that has the driver, where the machine has none and was asked for that.
    """

    nvml_version: str | None = None
    cuda_version: str | None = None
    files: Mapping[str, LibraryFile] | None = None
    nvidia_smi: str | None = None
    simulated: bool | None = None
    container: str | None = None


def find_libraries(soname: str, cache: str, machine: str) -> list[str]:
    """The files that a SONAME stands for, by the output of ``ldconfig -p`` and the usual folders; the loader takes the first."""
    paths = []
    for line in cache.splitlines():
        left, separator, path = line.partition(" => ")
        if separator and left.split()[:1] == [soname] and ("64" in left or "64" not in machine):
            paths.append(path.strip())
    paths += [
        os.path.join(folder % machine if "%" in folder else folder, soname) for folder in LIBRARY_FOLDERS
    ]
    return list(dict.fromkeys(os.path.realpath(path) for path in paths if os.path.exists(path)))


def library_fault(path: str) -> str | None:
    """Why the loader cannot take a file as library, by its first bytes and its size; None if nothing speaks against it."""
    try:
        with open(path, "rb") as file:
            head = file.read(64)
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if not size:
        return "is empty"
    if len(head) < 64 or head[:4] != b"\x7fELF":
        return "is no ELF file"
    if head[4] == 2:
        # The table of sections is the last thing in a file: what is shorter lacks some of it.
        order = "<" if head[5] == 1 else ">"
        (table,) = struct.unpack_from(order + "Q", head, 40)
        entry, entries = struct.unpack_from(order + "HH", head, 58)
        if table + entry * entries > size:
            return f"is cut off after {size} bytes"
    return None


def library_file(paths: Sequence[str]) -> LibraryFile:
    """The first of these files, which is the one that programs get."""
    return LibraryFile(
        path=paths[0] if paths else None,
        fault=library_fault(paths[0]) if paths else None,
        shadows=tuple(paths[1:]),
    )


def version_of_file(path: str | None) -> str | None:
    """Version in the name of a library's file."""
    matched = re.search(r"\.so\.(\d+\.\d+(?:\.\d+)*)$", path or "")
    return matched.group(1) if matched else None


def ask() -> Command:
    """Start the program that knows which files the loader takes."""
    return Command("ldconfig", "-p")


def find(asked: Command, errors: list[str]) -> dict[str, list[str]]:
    """The files of each of the driver's libraries, by the names of `Library.files`."""
    cache = asked.output(errors, accept=None) or ""
    return {
        name: find_libraries(f"lib{name}.so.1", cache, platform.machine()) for name in ("nvidia-ml", "cuda")
    }


def in_container(paths: Mapping[str, Sequence[str]]) -> tuple[str, str] | None:
    """Root of the container that has the driver, and NVML's library below it; None if there is none, or no need of it."""
    root = os.environ.get(CONTAINER)
    if not root or paths["nvidia-ml"]:
        return None
    for folder in LIBRARY_FOLDERS:
        path = os.path.join(folder % platform.machine() if "%" in folder else folder, "libnvidia-ml.so.1")
        # A link that is whole only below that root.
        if os.path.lexists(root + path):
            return root, path
    return None


def gather(
    paths: Mapping[str, Sequence[str]], simulated: bool | None, container: str | None = None
) -> Library:
    """The driver's user libraries.

    Args:
        paths: from find().
        simulated: whether the loaded library is.
        container: root of the container that has the driver.
    """
    files = {name: library_file(paths[name]) for name in ("nvidia-ml", "cuda")}
    return Library(
        nvml_version=version_of_file(files["nvidia-ml"].path),
        cuda_version=version_of_file(files["cuda"].path),
        files=files,
        nvidia_smi=find_program("nvidia-smi"),
        simulated=simulated,
        container=container,
    )
