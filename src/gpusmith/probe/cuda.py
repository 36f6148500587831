"""CUDA toolkits, which lie side by side."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import glob
import os
import re
from dataclasses import dataclass

FOLDER = "/usr/local"


@dataclass(frozen=True)
class Cuda:
    """Toolkits by MAJOR.MINOR.

    Attributes:
        versions: those with a compiler.
        default: what /usr/local/cuda leads to; None if it leads to none of them.
    """

    versions: tuple[str, ...] = ()
    default: str | None = None


def version_of(path: str) -> str | None:
    """MAJOR.MINOR in the name of a toolkit's folder."""
    matched = re.search(r"/cuda-(\d+\.\d+)$", path)
    return matched.group(1) if matched else None


def gather(folder: str = FOLDER) -> Cuda:
    """Toolkits below a folder."""
    paths = [os.path.dirname(os.path.dirname(path)) for path in glob.glob(folder + "/cuda-*/bin/nvcc")]
    link = os.path.join(folder, "cuda")
    return Cuda(
        versions=tuple(sorted(version for version in map(version_of, paths) if version)),
        default=version_of(os.path.realpath(link)) if os.path.exists(link) else None,
    )
