"""The driver's user libraries and tools."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


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
    """Libraries by the names of their files, and the simulation's marker in the loaded one.

    Attributes:
        files: by 'nvidia-ml' and 'cuda'; None if they could not be looked for.
        nvidia_smi: path of the program; None if there is none.
        simulated: whether the loaded library carries the simulation's marker; None if no library could be loaded.
    """

    nvml_version: str | None = None
    cuda_version: str | None = None
    files: Mapping[str, LibraryFile] | None = None
    nvidia_smi: str | None = None
    simulated: bool | None = None
    simulated_marker: str | None = None
