"""The releases that a lab has a choice of, as lab/images/releases.yml describes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from gpusmith import yaml_text
from gpusmith.data import compatibility
from gpusmith.errors import InputError

TABLE = Path(__file__).resolve().parents[1] / "images" / "releases.yml"
KUBERNETES, CONTAINERD = "kubernetes", "containerd"
TITLES = {KUBERNETES: "Kubernetes", CONTAINERD: "containerd"}


@dataclass(frozen=True)
class Release:
    """One minor release of a component.

    Attributes:
        of: the component, as tables of images and packages name it, and as the repository of its packages is named.
        name: as the option takes it.
        component: what its programs are compiled from, a folder of lab/go.
        tags: image -> tag, of those that kubeadm asks for with versions of their own.
    """

    of: str
    name: str
    component: str
    tags: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{TITLES[self.of]} {self.name}"


@cache
def known(of: str) -> dict[str, Release]:
    """All releases of a component by name."""
    rows = yaml_text.load(TABLE.read_text())[of]
    return {name: Release(of=of, name=name, **row) for name, row in rows.items()}


@dataclass(frozen=True)
class Releases:
    """What one lab has: a release of each.

    Attributes:
        kubernetes: of all machines.
        containerd: of all machines.
    """

    kubernetes: str = "1.36"
    containerd: str = "2.3"

    def of(self, name: str) -> Release:
        """The release of a component.

        Raises:
            InputError: there is none of that name; lists those that are.
        """
        wanted: str = getattr(self, name)
        found = known(name).get(wanted)
        if found is None:
            raise InputError(
                f"The lab has no {TITLES[name]} '{wanted}'.", f"There are {', '.join(known(name))}."
            )
        return found

    @property
    def others(self) -> tuple[Release, ...]:
        """Those that are not the usual ones."""
        return tuple(self.of(name) for name in TITLES if getattr(self, name) != getattr(USUAL, name))

    def stands_for(self, name: str) -> str:
        """The component that a table's name means in this lab."""
        return self.of(name).component if name in TITLES else name

    def must_fit(self) -> None:
        """Refuse a containerd that this Kubernetes does not support; preflight would refuse every machine.

        Raises:
            InputError: it is such a pair; lists what it supports.
        """
        supported = {row.rpartition(".")[0] for row in compatibility.load().containerd[self.kubernetes]}
        if self.containerd not in supported:
            there = [name for name in known(CONTAINERD) if name in supported]
            raise InputError(
                f"{self.of(KUBERNETES)} does not support {self.of(CONTAINERD)}.",
                f"Of the lab's releases it supports {', '.join(there)}; '--kubernetes' may be another one.",
            )

    def root(self, repository: str) -> str:
        """The folder of the depot with that repository alone; empty if it is where all others are."""
        return next((each.component for each in self.others if each.of == repository), "")


USUAL = Releases()
