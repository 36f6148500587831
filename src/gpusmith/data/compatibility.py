"""Which versions go together: the tables of data/compatibility.yml."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gpusmith.data import table

SCHEMA = "gpusmith.compatibility/1"


@dataclass(frozen=True)
class Limits:
    """What a GPU architecture can do; None where no bound is known.

    Attributes:
        open_module: whether NVIDIA's open kernel module drives it: supported, required or unsupported.
        pci_devices: ranges of its PCI device IDs.
        last_branch: last driver branch that supports it.
        first_cuda: first CUDA version that supports it.
        last_cuda: last CUDA major version that supports it.
    """

    open_module: str = "supported"
    pci_devices: tuple[tuple[int, int], ...] = ()
    last_branch: int | None = None
    first_cuda: str | None = None
    last_cuda: str | None = None


@dataclass(frozen=True)
class Refused:
    """A release that harms a node.

    Attributes:
        why: what it does.
        instead: the first release without that.
    """

    why: str
    instead: str


@dataclass(frozen=True)
class Branches:
    """Driver branches that have something; None where no bound is known."""

    first_branch: int | None = None
    last_branch: int | None = None

    def has(self, branch: int) -> bool:
        """Whether a branch is one of them."""
        first, last = self.first_branch, self.last_branch
        return (first is None or branch >= first) and (last is None or branch <= last)

    @property
    def words(self) -> str:
        """For messages."""
        if self.first_branch and self.last_branch:
            return f"branches {self.first_branch} to {self.last_branch}"
        if self.last_branch is not None:
            return f"branch {self.last_branch} or older"
        return f"branch {self.first_branch} or newer"


@dataclass(frozen=True)
class NoBuild:
    """A module that does not compile for some kernels.

    Attributes:
        kind: open or proprietary.
        driver: its version.
        kernel: what the releases begin with.
        first: the first number behind that, for which it does not.
        last: the last one; None if none is known.
        why: the compiler's words.
        instead: what to do about it.
    """

    kind: str
    driver: str
    kernel: str
    first: int
    last: int | None
    why: str
    instead: str

    def meets(self, kind: str, driver: str, release: str) -> bool:
        """Whether a module is this one, and a kernel one of those."""
        if (kind, driver) != (self.kind, self.driver) or not release.startswith(self.kernel):
            return False
        number = re.match(r"\d+", release[len(self.kernel) :])
        return number is not None and self.first <= int(number[0]) <= (self.last or int(number[0]))


@dataclass(frozen=True)
class Compatibility:
    """What versions are judged by.

    Attributes:
        operating_systems: pairs of ID and version as os-release has them; a version without a dot stands for all its minor ones.
        containerd: by minor version of Kubernetes, the first good patch of each minor version of containerd.
        toolkit_cdi_minimum: first release of the container toolkit whose runtime uses CDI by itself.
        toolkit_refused: releases of the container toolkit that harm a node.
        driver_for_cuda: by major version of CUDA, the smallest driver branch.
        architectures: by GPU architecture.
        module_kinds: branches that have a kind of kernel module.
        module_builds: modules that do not compile for some kernels.
    """

    operating_systems: Sequence[tuple[str, str]]
    containerd: Mapping[str, Sequence[str]]
    toolkit_cdi_minimum: str
    toolkit_refused: Mapping[str, Refused]
    driver_for_cuda: Mapping[str, int]
    architectures: Mapping[str, Limits]
    module_kinds: Mapping[str, Branches]
    module_builds: Sequence[NoBuild]

    def architecture_of(self, device_id: str) -> str:
        """The architecture of a GPU by its PCI ID ('10de:2330'); empty if no range has it."""
        number = int(device_id.rpartition(":")[2] or "0", 16)
        return next(
            (
                name
                for name, row in self.architectures.items()
                if any(first <= number <= last for first, last in row.pci_devices)
            ),
            "",
        )

    def driver_branches(self, architecture: str, first: int) -> Branches:
        """Branches that support a GPU.

        Args:
            architecture: of its model.
            first: first branch that supports the model.
        """
        return Branches(first, self.architectures.get(architecture, Limits()).last_branch)

    def no_build(self, kind: str, driver: str, release: str) -> NoBuild | None:
        """Why a module is known not to compile for a kernel."""
        return next((row for row in self.module_builds if row.meets(kind, driver, release)), None)


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first, 16), int(last, 16)


def _parse(content: dict[str, Any]) -> Compatibility:
    return Compatibility(
        operating_systems=[(row["id"], row["version"]) for row in content["operating_systems"]["rows"]],
        containerd={row["kubernetes"]: row["containerd"] for row in content["kubernetes_containerd"]["rows"]},
        toolkit_cdi_minimum=str(content["container_toolkit"]["cdi_minimum"]),
        toolkit_refused={
            str(row["version"]): Refused(str(row["why"]), str(row["instead"]))
            for row in content["container_toolkit"]["refused"]
        },
        driver_for_cuda={row["cuda"]: int(row["minimum_branch"]) for row in content["cuda_driver"]["rows"]},
        architectures={
            row["architecture"]: Limits(
                **{
                    **{key: row[key] for key in row if key != "architecture"},
                    "pci_devices": tuple(_range(text) for text in row["pci_devices"]),
                }
            )
            for row in content["architectures"]["rows"]
        },
        module_kinds={
            row["kind"]: Branches(row.get("first_branch"), row.get("last_branch"))
            for row in content["module_kinds"]["rows"]
        },
        module_builds=[
            NoBuild(
                kind=row["kind"],
                driver=str(row["driver"]),
                kernel=str(row["kernel"]),
                first=int(row["from"]),
                last=row.get("to"),
                why=str(row["why"]),
                instead=str(row["instead"]),
            )
            for row in content["module_builds"]["rows"]
        ],
    )


@cache
def load(path: Path | None = None) -> Compatibility:
    """The tables.

    Raises:
        ToolError: the file is missing or has another shape.
    """
    return table.read(path, "compatibility.yml", SCHEMA, "versions", _parse)
