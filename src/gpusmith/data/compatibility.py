"""Which versions go together: the tables of data/compatibility.yml."""

from __future__ import annotations

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
        last_branch: last driver branch that supports it.
        first_cuda: first CUDA version that supports it.
        last_cuda: last CUDA major version that supports it.
    """

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
class Compatibility:
    """What preflight judges versions by.

    Attributes:
        operating_systems: pairs of ID and major version as os-release has them.
        containerd: by minor version of Kubernetes, the first good patch of each minor version of containerd.
        containerd_minimum: first release of containerd that works with our configuration.
        toolkit_cdi_minimum: first release of the container toolkit whose runtime uses CDI by itself.
        toolkit_refused: releases of the container toolkit that harm a node.
        driver_for_cuda: by major version of CUDA, the smallest driver branch.
        architectures: by GPU architecture.
    """

    operating_systems: Sequence[tuple[str, str]]
    containerd: Mapping[str, Sequence[str]]
    containerd_minimum: str
    toolkit_cdi_minimum: str
    toolkit_refused: Mapping[str, Refused]
    driver_for_cuda: Mapping[str, int]
    architectures: Mapping[str, Limits]


def _parse(content: dict[str, Any]) -> Compatibility:
    return Compatibility(
        operating_systems=[(row["id"], row["version"]) for row in content["operating_systems"]["rows"]],
        containerd={row["kubernetes"]: row["containerd"] for row in content["kubernetes_containerd"]["rows"]},
        containerd_minimum=str(content["containerd_minimum"]["version"]),
        toolkit_cdi_minimum=str(content["container_toolkit"]["cdi_minimum"]),
        toolkit_refused={
            str(row["version"]): Refused(str(row["why"]), str(row["instead"]))
            for row in content["container_toolkit"]["refused"]
        },
        driver_for_cuda={row["cuda"]: int(row["minimum_branch"]) for row in content["cuda_driver"]["rows"]},
        architectures={
            row["architecture"]: Limits(**{key: row[key] for key in row if key != "architecture"})
            for row in content["architectures"]["rows"]
        },
    )


@cache
def load(path: Path | None = None) -> Compatibility:
    """The tables.

    Raises:
        ToolError: the file is missing or has another shape.
    """
    return table.read(path, "compatibility.yml", SCHEMA, "versions", _parse)
