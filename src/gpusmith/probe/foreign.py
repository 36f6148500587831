"""What may be of a driver that no package brought, or of packages that are neither there nor gone."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

# Its own uninstaller, and the name by which that installs itself (README of the driver, "Installing the NVIDIA Driver").
INSTALLER = ("/usr/bin/nvidia-uninstall", "/usr/bin/nvidia-installer")
SOURCES = "/usr/src/nvidia-*/dkms.conf"
# The driver's; nvidia-fs and others have versions of another kind.
SOURCE = re.compile(r"nvidia(?:-[a-z]+)*-(?P<version>\d{3}\.\d+(?:\.\d+)?)")


@dataclass(frozen=True)
class Foreign:
    """What nobody's package may have brought.

    Attributes:
        installer: files of NVIDIA's installer ('.run') that are there.
        sources: version by folder of sources of the driver's module, from which DKMS builds it for every kernel.
    """

    installer: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)


def version_of(folder: str) -> str | None:
    """Version of the driver whose sources a folder has; None for those of something else."""
    found = SOURCE.fullmatch(os.path.basename(folder))
    return found["version"] if found else None


def gather(installer: tuple[str, ...] = INSTALLER, sources: str = SOURCES) -> Foreign:
    """Look for them; whose they are, the judge says."""
    folders = sorted(os.path.dirname(path) for path in glob.glob(sources))
    versions = {folder: version_of(folder) for folder in folders}
    return Foreign(
        installer=tuple(path for path in installer if os.path.exists(path)),
        sources={folder: version for folder, version in versions.items() if version},
    )
