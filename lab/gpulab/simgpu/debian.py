"""The simulated driver's packages for machines with Debian: NVIDIA's repository, and Debian's archive."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from gpulab.simgpu import kernels
from gpulab.simgpu.packages import (
    Deb,
    Driver,
    driver_packages,
    headers,
    made,
    package,
    placeholders,
    table,
    toolkit_packages,
    upstream,
    write_all,
)


def build(out_cuda: Path, out_broken: Path, out_debian: Path) -> None:
    """Write all simulated packages.

    Args:
        out_cuda: folder for the packages of NVIDIA's repository (driver and CUDA toolkit).
        out_broken: folder for the driver versions that are broken on purpose.
        out_debian: folder for those of Debian's archive (driver, dkms, kernels and their headers).

    Raises:
        ToolError: a compiler or packaging step failed; names the step.
    """
    outs = {"debian": out_debian, "cuda": out_cuda}
    with TemporaryDirectory(prefix="simgpu-") as folder:
        work = Path(folder)
        nvidia, debian, cuda = table("nvidia"), table("debian"), table("cuda")
        broken = nvidia | {"drivers": table("broken")["drivers"]}
        jobs: list[tuple[Path, Deb]] = []
        versions = [
            (rows, row, out)
            for rows, out in ((nvidia, out_cuda), (broken, out_broken), (debian, out_debian))
            for row in rows["drivers"]
        ]
        built_in_order = made([row for _, row, _ in versions], work)
        for (rows, row, out), built in zip(versions, built_in_order, strict=True):
            jobs += [(out, deb) for deb in driver_packages(rows, row, built)]
        for single in debian["singles"]:
            for version in single["versions"]:
                built = Driver(work, upstream(version), debian["drivers"][0]["cuda"])
                deb = package(single, placeholders(upstream(version), version), built)
                jobs += [(outs[name], deb) for name in single.get("repositories", ["debian"])]
        jobs += [(out_cuda, deb) for deb in toolkit_packages(cuda)]
        jobs.append((out_debian, headers()))
        jobs += [(outs[name], deb) for name, deb in kernels.debs("debian")]
        write_all(jobs, work)
