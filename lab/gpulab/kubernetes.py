"""The minor releases of Kubernetes that a lab can have, as lab/images/kubernetes.yml describes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from gpusmith.errors import InputError

DEFAULT = "1.36"
TABLE = Path(__file__).resolve().parents[1] / "images" / "kubernetes.yml"
REPOSITORY = "kubernetes"
"""Name of its packages' repository, and of the component that tables of images and packages take programs from."""


@dataclass(frozen=True)
class Minor:
    """One minor release.

    Attributes:
        name: as `--kubernetes` takes it.
        component: what its programs are compiled from, a folder of lab/go.
        tags: image -> tag, of those that kubeadm asks for with versions of their own.
    """

    name: str
    component: str
    tags: Mapping[str, str]

    @property
    def root(self) -> str:
        """The folder of the depot with its packages, empty if they are where all others are."""
        return "" if self.name == DEFAULT else f"kubernetes-{self.name}"

    def stands_for(self, name: str) -> str:
        """The component that a table's name means in a lab with this release."""
        return self.component if name == REPOSITORY else name


@cache
def known() -> dict[str, Minor]:
    """All of them by name."""
    return {name: Minor(name=name, **row) for name, row in yaml.safe_load(TABLE.read_text()).items()}


def minor(name: str) -> Minor:
    """The one of that name.

    Raises:
        InputError: there is none; lists those that are.
    """
    found = known().get(name)
    if found is None:
        raise InputError(f"The lab has no Kubernetes '{name}'.", f"There are {', '.join(known())}.")
    return found
