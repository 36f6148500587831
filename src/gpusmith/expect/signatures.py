"""Signatures of the driver's modules: with Secure Boot a kernel loads those of keys that it knows, and no others.

A site's key signs what one node has built for several. For a kernel that comes between two runs DKMS builds by itself, and signs
with a key that it made on that node.
"""

from __future__ import annotations

from functools import cache

from gpusmith.errors import InputError
from gpusmith.expect import kernels, versions
from gpusmith.expect.layouts import Unmet
from gpusmith.expect.wanted import Driver
from gpusmith.probe.kernels import Kernel
from gpusmith.probe.record import Record
from gpusmith.problems import Cure, Problem


def count(record: Record, wanted: Driver) -> bool:
    """Whether it matters who signed: a site's key does, and the machine boots with Secure Boot."""
    return bool(wanted.certificate and record.system.secure_boot)


def to_hold(record: Record, wanted: Driver) -> set[str]:
    """Packages that bring the next kernel: it would come with a module that it does not load."""
    return kernels.bring_next(record) if count(record, wanted) else set()


def of_others(record: Record, wanted: Driver) -> list[Kernel]:
    """Kernels that can be booted, and whose module of the wanted version is not signed with the site's key.

    Raises:
        Unmet: the certificate cannot be read.
    """
    if not count(record, wanted):
        return []
    return not_of(_number(wanted.certificate), record, versions.upstream(wanted.version))


def not_of(key: str, record: Record, version: str) -> list[Kernel]:
    """Kernels that can be booted, and whose module of a version has another signature; without Secure Boot nobody asks for it.

    Args:
        key: serial number of the certificate, in hexadecimal digits.
        record: of the node.
        version: of the driver, without the packager's part.
    """
    if not record.system.secure_boot:
        return []
    can_boot = kernels.bootable(record)
    return [
        kernel
        for kernel in record.kernels or ()
        if kernel.release in can_boot
        and kernel.module_version == version
        # What the node's modinfo cannot tell is no reason to sign again and again.
        and kernel.signing_key not in (None, key)
    ]


@cache
def _number(certificate: str) -> str:
    # Most sites sign nothing, and need no library for that.
    from gpusmith.built import signing

    try:
        return signing.serial_number(certificate)
    except InputError as error:
        raise Unmet(error.message, error.hint) from error


def problems(record: Record, wanted: Driver) -> list[Problem]:
    """Every such module.

    Raises:
        Unmet: the certificate cannot be read.
    """
    return [
        Problem(
            f"Node '{wanted.node}': the driver's module for kernel {kernel.release} is signed by {_words(kernel)}, not with the"
            " site's key ('nvidia_driver_build_signing'): with Secure Boot that kernel may not load it.",
            f"Run site.yml, which signs it, before '{wanted.node}' boots that kernel.",
            {"kernel": kernel.release, "signer": kernel.signer, "signing_key": kernel.signing_key},
            Cure.PACKAGES,
        )
        for kernel in of_others(record, wanted)
    ]


def _words(kernel: Kernel) -> str:
    return f"'{kernel.signer}' (certificate {kernel.signing_key})" if kernel.signing_key else "nobody"
