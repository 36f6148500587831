"""The simulated driver's packages for machines with Ubuntu's packages: NVIDIA's repository and Ubuntu's archive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gpulab.simgpu.packages import (
    Deb,
    Driver,
    headers,
    made,
    package,
    placeholders,
    table,
    toolkit_packages,
    upstream,
    write_all,
)

REPOSITORIES = ("cuda", "ubuntu")


def build(folder: Path) -> None:
    """Write all packages into one folder for each repository.

    Raises:
        ToolError: a compiler or packaging step failed; names the step.
    """
    rows = table("ubuntu")
    with TemporaryDirectory(prefix="simgpu-") as name:
        work = Path(name)
        jobs = [*_drivers(rows, work), *_singles(rows, work)]
        jobs += [("cuda", deb) for deb in toolkit_packages(table("cuda"))]
        jobs.append(("ubuntu", headers()))
        write_all([(folder / repository, deb) for repository, deb in jobs], work)


def _drivers(rows: Mapping[str, Any], work: Path) -> Iterator[tuple[str, Deb]]:
    for row, built in zip(rows["drivers"], made(rows["drivers"], work), strict=True):
        values = placeholders(row["version"], row["deb"], suffix=row["suffix"])
        for template in rows["packages"]:
            if belongs(template, int(values["branch"]), row["repository"]):
                yield row["repository"], package(template, values, built)


def belongs(template: Mapping[str, Any], branch: int, repository: str) -> bool:
    """Whether a row of the table is for a driver of this branch from this repository."""
    inside = template.get("since", 0) <= branch <= template.get("until", branch)
    return inside and repository in template.get("in", REPOSITORIES)


def _singles(rows: Mapping[str, Any], work: Path) -> Iterator[tuple[str, Deb]]:
    for single in rows["singles"]:
        for version in single["versions"]:
            built = Driver(work, upstream(version), rows["drivers"][0]["cuda"])
            yield "ubuntu", package(single, placeholders(upstream(version), version), built)
