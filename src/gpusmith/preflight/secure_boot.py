"""Whether firmware that lets signed modules alone into the kernel will let the driver's in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpusmith.errors import InputError, Refusal
from gpusmith.expect.layouts import PREBUILT
from gpusmith.preflight.words import Facts, Tables, Wanted, refusal
from gpusmith.probe.kernels import DEPENDENTS
from gpusmith.wording import quoted

if TYPE_CHECKING:
    from cryptography.x509 import Certificate


@dataclass(frozen=True)
class SiteKey:
    """The key with which a site signs modules.

    Attributes:
        certificate: its file.
        number: what the kernel lists the certificate by, in hexadecimal digits.
    """

    certificate: str
    number: str


def site_key(wanted: Wanted) -> SiteKey | Refusal | None:
    """The key that signs the modules, a reason why it cannot, or None where nobody signs."""
    files = wanted.node.driver.build_signing
    if not files or not wanted.node.driver.builds_once:
        return None
    # Most sites sign nothing, and need no library for that.
    from gpusmith.built import signing

    try:
        signer = signing.load(str(files.get("key") or ""), str(files.get("certificate") or ""))
    except InputError as error:
        return refusal(
            "signing key", error.message.rstrip("."), "a key with its certificate, or none", error.hint
        )
    return SiteKey(str(files["certificate"]), number(signer.certificate)) if signer else None


def number(certificate: Certificate) -> str:
    """What the kernel lists a certificate by: the identifier of its key, or its serial number where it has none."""
    from cryptography.x509 import ExtensionNotFound, SubjectKeyIdentifier

    try:
        return certificate.extensions.get_extension_for_class(SubjectKeyIdentifier).value.digest.hex()
    except ExtensionNotFound:
        digits = f"{certificate.serial_number:x}"
        return digits.zfill(len(digits) + len(digits) % 2)


def check_secure_boot(facts: Facts, wanted: Wanted, _tables: Tables) -> Iterator[Refusal]:
    """Modules are signed with a key that the kernel trusts: the distribution's, or a site's that is enrolled."""
    key = facts.get("signing")
    system = facts["record"]["system"]
    if isinstance(key, Refusal):
        # Where nothing is to be signed, nobody needs the key.
        if system["secure_boot"] or facts["record"]["module"].get("installed_version") is None:
            yield key
        return
    if not system["secure_boot"] or _may_be_unsigned(wanted):
        return
    if key is None:
        yield refusal(
            "secure boot",
            "on",
            "off, or modules signed with a key that the firmware knows, which the one of DKMS is not",
            _ways(str(facts["record"]["host"].get("os_id") or "")),
        )
        return
    unsigned = [name for name in wanted.node.driver.extra_modules if name in DEPENDENTS]
    if unsigned:
        yield refusal(
            "secure boot",
            f"on, and {quoted(unsigned)} of 'nvidia_driver_extra_modules', which DKMS builds on the machine",
            "modules that a key signs which the firmware knows, and yours signs the driver's alone",
            "Where the key of DKMS is enrolled on this machine too, set 'preflight_secure_boot_allowed: true'; or take them out.",
        )
    known = system.get("kernel_keys")
    if known and key.number.lstrip("0") not in {each.lstrip("0") for each in known}:
        yield refusal(
            "secure boot",
            f"on, and the kernel does not know the certificate '{key.certificate}' ({key.number})",
            "a certificate that is enrolled",
            "Copy it to the machine in DER, enrol it there ('mokutil --import FILE', then a reboot, where MokManager asks at the"
            " console), and run again. Where the kernel trusts it all the same, set 'preflight_secure_boot_allowed: true'.",
        )


def _may_be_unsigned(wanted: Wanted) -> bool:
    """Whether no key of ours has to sign modules of the driver."""
    node = wanted.node
    ours = node.manages("nvidia_driver") and not wanted.no_driver
    return not ours or node.preflight.secure_boot_allowed or node.driver.module_build == PREBUILT


UNREAD = (
    "whether Secure Boot is on could not be read of the firmware's variables ('mokutil --sb-state' tells); if it is, the kernel"
    " loads no driver that DKMS built"
)


def notes(facts: Facts, wanted: Wanted) -> list[str]:
    """What a person should know where nobody can tell whether modules must be signed, or whether the certificate is enrolled."""
    key, system = facts.get("signing"), facts["record"].get("system") or {}
    if system.get("secure_boot", False) is None:
        # A driver that is loaded may be.
        loaded = (facts["record"].get("module") or {}).get("loaded_version")
        return [] if loaded or isinstance(key, SiteKey) or _may_be_unsigned(wanted) else [UNREAD]
    if not isinstance(key, SiteKey) or not system.get("secure_boot") or system.get("kernel_keys"):
        return []
    if wanted.node.preflight.secure_boot_allowed:
        return []
    told = (
        "Secure Boot is on, and the kernel does not list the certificates that it knows."
        f" Without '{key.certificate}' among them ('mokutil --list-enrolled') it will not load the driver."
    )
    return [told]


def _ways(os_id: str) -> str:
    prebuilt = (
        " Or take modules that Ubuntu signs: 'nvidia_driver_package_layout: distribution' with"
        " 'nvidia_driver_module_build: prebuilt'."
        if os_id == "ubuntu"
        else ""
    )
    return (
        "Sign modules with a key of yours whose certificate is enrolled: 'nvidia_driver_build: once_per_kernel' with"
        f" 'nvidia_driver_build_signing' (docs/build_once.md).{prebuilt} Or turn Secure Boot off in the firmware; or, where the"
        " key of DKMS is enrolled on this machine, set 'preflight_secure_boot_allowed: true'."
    )
