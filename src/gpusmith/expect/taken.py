"""Kernel modules that another node has built: they are there, unchanged, and for the kernel that they were taken for."""

from __future__ import annotations

from gpusmith.expect import kernels, signatures, versions
from gpusmith.expect.wanted import Driver
from gpusmith.probe.record import Record
from gpusmith.probe.taken import Taken, TakenFile
from gpusmith.problems import Cure, Problem


def problems(record: Record, node: str) -> list[Problem]:
    """Every module that is not what was taken."""
    found = []
    for taken in _that_count(record):
        for file in taken.files:
            wrong = _wrong(taken, file)
            if wrong:
                evidence = {"kernel": taken.kernel, "path": file.path, "builder": taken.builder}
                found.append(
                    Problem(
                        f"Node '{node}': module '{file.path}', which was taken from the build of '{taken.builder}', {wrong}.",
                        "Run site.yml, which puts it back.",
                        evidence,
                        Cure.PACKAGES,
                    )
                )
    return found


def _that_count(record: Record) -> list[Taken]:
    """What is noted of the modules that are there. A note outlives them where DKMS builds others later."""
    rows = {kernel.release: kernel for kernel in record.kernels or ()}
    versions_there = {release: row.module_version for release, row in rows.items()}
    # A kernel without the module should have the running one's.
    running = record.module.installed_version
    versions_there[record.host.kernel or ""] = running
    found = []
    for taken in record.taken:
        if taken.kernel not in kernels.bootable(record):
            continue
        row = rows.get(taken.kernel)
        # DKMS may compress, and then names the file otherwise.
        replaced = row and row.module and row.module not in {file.path for file in taken.files}
        if not replaced and (versions_there.get(taken.kernel) or running) in (None, taken.version):
            found.append(taken)
    return found


def _wrong(taken: Taken, file: TakenFile) -> str:
    """What is wrong with a file, in words; empty if nothing is, or if another version has come since then."""
    if not file.is_there:
        return "is not there"
    if file.version is not None and file.version != taken.version:
        return ""
    release = (file.vermagic or "").split(" ")[0]
    if release != taken.kernel:
        return f"is for kernel '{release or 'none'}', and stands with kernel '{taken.kernel}'"
    return "" if file.same else "has another checksum than the one that was taken"


def to_take(record: Record, wanted: Driver) -> list[str]:
    """Releases of kernels for which one node of several has to build, or whose modules are not what was taken or signed.

    Raises:
        Unmet: the certificate of the site's key cannot be read.
    """
    if wanted.layout.ready:
        return []
    version, release = versions.upstream(wanted.version), record.host.kernel
    running = [release] if release and record.module.installed_version != version else []
    unsigned = [kernel.release for kernel in signatures.of_others(record, wanted)]
    return list(
        dict.fromkeys([*running, *kernels.unbuilt(record, wanted), *damaged(record, wanted), *unsigned])
    )


def damaged(record: Record, wanted: Driver) -> list[str]:
    """Releases of kernels whose modules of the wanted version are not what was taken; DKMS keeps a copy."""
    version = versions.upstream(wanted.version)
    return [
        taken.kernel
        for taken in _that_count(record)
        if taken.version == version and any(_wrong(taken, file) for file in taken.files)
    ]
