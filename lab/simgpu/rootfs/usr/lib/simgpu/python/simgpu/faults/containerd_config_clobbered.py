"""The fault 'containerd-config-clobbered'."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

from simgpu import paths
from simgpu.errors import RefusedError
from simgpu.fault import Fault, Target
from simgpu.files import read
from simgpu.processes import call

STOCK = """\
#   Stock configuration of the containerd.io package (fault containerd-config-clobbered of the gpusmith lab)
disabled_plugins = ["cri"]

#root = "/var/lib/containerd"
#state = "/run/containerd"
"""


def _saved() -> Path:
    return paths.SAVED / "containerd-config.toml"


def _restart() -> None:
    call("systemctl", "restart", "containerd.service", check=False)


class ContainerdConfigClobbered(Fault):
    """Somebody reinstalled containerd's package."""

    name = "containerd-config-clobbered"
    help = "containerd's configuration is replaced by the package's stock file"
    blinds_monitors = False

    def inject(self, at: Target) -> None:  # noqa: ARG002 - a file, not the live state
        """The stock file, which disables Kubernetes' interface."""
        if not paths.CONTAINERD.exists():
            raise RefusedError(errno.ENOENT, f"{paths.CONTAINERD} is missing: nothing to clobber")
        paths.SAVED.mkdir(parents=True, exist_ok=True)
        shutil.copy2(paths.CONTAINERD, _saved())
        paths.CONTAINERD.write_text(STOCK)

    def after_inject(self) -> None:
        """It is read."""
        _restart()

    def heal(self, at: Target) -> None:
        """The record alone is forgotten: files are put back when nothing can be refused any more."""

    def after_heal(self) -> None:
        """The configuration as it was, unless somebody repaired it in the meantime."""
        if _saved().exists() and read(paths.CONTAINERD) == STOCK:
            shutil.copy2(_saved(), paths.CONTAINERD)
            _restart()
        _saved().unlink(missing_ok=True)
