"""The operands, as rows of role gpu_operands: what they are called, whose they are, and how they are recognised in a cluster."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpusmith import yaml_text
from gpusmith.paths import repo_root

ROLE = "gpu_operands"
DEVICE_PLUGIN = "nvidia-device-plugin"
FEATURE_DISCOVERY = "gpu-feature-discovery"
MPS_DAEMON = "mps-control-daemon"
"""It runs where GPUs are shared by MPS, for the device plugin and whoever gets a share."""
DRA_DRIVER = "dra-driver-nvidia-gpu"
"""In the device plugin's place where pods get GPUs by claims: it is ours if that is."""
OPERATOR = "gpu-operator"
MANAGED = "managed"
"""What the variable of an owner says of an operand, or of a role's part, that is ours."""
EXISTING = "existing"
"""And of one that somebody else installs."""


@dataclass(frozen=True)
class Operand:
    """A program in pods that serves GPUs; roles/gpu_operands/vars/main.yml explains the attributes."""

    component: str
    images: tuple[str, ...]
    with_driver: bool = False
    name: str = ""
    owner: str = ""
    files: tuple[str, ...] = ()
    stays: tuple[str, ...] = ()
    daemon_set: str = ""
    deployment: str = ""

    @property
    def field(self) -> str:
        """The owner's variable without the prefix of its role."""
        return self.owner.removeprefix(f"{ROLE}_")


@functools.cache
def rows() -> tuple[Operand, ...]:
    """All of them, those of others as well."""
    path = repo_root() / "roles" / ROLE / "vars" / "main.yml"
    listed = yaml_text.load(path.read_text(encoding="utf-8"))[f"__{ROLE}_rows"]
    return tuple(_row(row) for row in listed)


def _row(listed: Mapping[str, Any]) -> Operand:
    row: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in listed.items()
    }
    # To the role it is the variable's value.
    return Operand(**{**row, "owner": row.get("owner", "").strip("{} ")})


def deployed() -> tuple[Operand, ...]:
    """Those that the role deploys where they are ours."""
    return tuple(row for row in rows() if row.owner)
