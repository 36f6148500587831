"""The simulated driver's packages for machines with Ubuntu's packages: NVIDIA's repository and Ubuntu's archive."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gpulab.simgpu import kernels
from gpulab.simgpu.kernels import Kernel
from gpulab.simgpu.packages import (
    MODULES,
    Deb,
    Driver,
    broken_by_parts,
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
BROKEN = "cuda-broken"
"""The packages of NVIDIA's repository, of drivers that are broken on purpose."""
MARK = b"vermagic=@VERMAGIC"


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
        jobs += kernels.debs("ubuntu")
        write_all([(folder / repository, deb) for repository, deb in jobs], work)


def _drivers(rows: Mapping[str, Any], work: Path) -> Iterator[tuple[str, Deb]]:
    drivers = [*rows["drivers"], *_broken()]
    running = Kernel(os.uname().release, headers().version, "ubuntu", {})
    for row, built in zip(drivers, made(drivers, work), strict=True):
        values = placeholders(row["version"], row["deb"], suffix=row["suffix"])
        repository = row["repository"].replace(BROKEN, "cuda")
        for template in rows["packages"]:
            if not belongs(template, int(values["branch"]), repository):
                continue
            if "prebuilt" not in template:
                yield row["repository"], package(template, values, built)
                continue
            for kernel in [running, *kernels.known("ubuntu")]:
                deb = package(template, {**values, "kernel": kernel.release}, built)
                yield kernel.repository, prebuilt(deb, built, template["prebuilt"], kernel)


def _broken() -> Iterator[dict[str, Any]]:
    for row in broken_by_parts():
        version, branch = row["version"], row["version"].partition(".")[0]
        yield {**row, "repository": BROKEN, "deb": f"{version}-1ubuntu1", "suffix": f"-{branch}"}


def prebuilt(deb: Deb, built: Driver, flavour: str, kernel: Kernel) -> Deb:
    """The package with modules that were built for a kernel, and with that kernel's version."""
    files = {}
    release = kernel.release
    folder = deb.name.removeprefix("linux-modules-").removesuffix(f"-{release}")
    for module in MODULES:
        path = built.folder / f"{deb.name}-{module}.ko"
        path.write_bytes(for_kernel(built.part(f"{flavour}/{module}.o").read_bytes(), release))
        files[f"/lib/modules/{release}/kernel/{folder}/{module}.ko"] = path
    scripts = dict.fromkeys(("postinst", "postrm"), f"depmod -a {release}\n")
    return replace(deb, version=kernel.version, files=files, scripts=scripts)


def for_kernel(module: bytes, kernel: str) -> bytes:
    """A module's object with the kernel's name in it, as the simulated dkms writes it."""
    start = module.index(MARK)
    end = module.index(b"\0", start)
    magic = f"vermagic={kernel} SMP preempt mod_unload modversions ".encode()
    return module[:start] + magic.ljust(end - start, b"\0") + module[end:]


def belongs(template: Mapping[str, Any], branch: int, repository: str) -> bool:
    """Whether a row of the table is for a driver of this branch from this repository."""
    inside = template.get("since", 0) <= branch <= template.get("until", branch)
    return inside and repository in template.get("in", REPOSITORIES)


def _singles(rows: Mapping[str, Any], work: Path) -> Iterator[tuple[str, Deb]]:
    for single in rows["singles"]:
        for version in single["versions"]:
            built = Driver(work, upstream(version), rows["drivers"][0]["cuda"])
            yield single["repository"], package(single, placeholders(upstream(version), version), built)
