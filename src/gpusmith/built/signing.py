"""Signatures of kernel modules, made on the controller: the private key stays there.

The form is that of the kernel's own program sign-file: a detached PKCS #7 message without certificates and attributes behind the
module, then a fixed structure with its length, and a line of text.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.module_utils.built_archive import digest, write_archive
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import pkcs7
from cryptography.x509.oid import NameOID

from gpusmith.errors import InputError
from gpusmith.probe.module_file import SIGNED, TRAILER, bare

PKCS7 = 2
"""PKEY_ID_PKCS7: the message itself says who signed."""
OPTIONS = (
    pkcs7.PKCS7Options.DetachedSignature,
    pkcs7.PKCS7Options.Binary,
    pkcs7.PKCS7Options.NoAttributes,
    pkcs7.PKCS7Options.NoCerts,
)


@dataclass(frozen=True)
class Signer:
    """A key, and the certificate that firmwares of nodes have enrolled."""

    certificate: x509.Certificate
    key: RSAPrivateKey

    @property
    def fingerprint(self) -> str:
        """Of the certificate."""
        return self.certificate.fingerprint(hashes.SHA256()).hex()

    @property
    def number(self) -> str:
        """Serial number of the certificate; see `serial_number`."""
        return f"{self.certificate.serial_number:x}"

    @property
    def name(self) -> str:
        """Common name, as modinfo shows it."""
        found = self.certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return str(found[0].value) if found else self.certificate.subject.rfc4514_string()

    def signed(self, module: bytes) -> bytes:
        """The module with this signature and no other."""
        plain = bare(module)
        builder = pkcs7.PKCS7SignatureBuilder().set_data(plain)
        message = builder.add_signer(self.certificate, self.key, hashes.SHA512()).sign(
            serialization.Encoding.DER, list(OPTIONS)
        )
        return plain + message + TRAILER.pack(0, 0, PKCS7, 0, 0, len(message)) + SIGNED

    def sign(self, archive: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Sign the modules of an archive; its new manifest."""
        with tarfile.open(archive) as packed:
            members = {
                member.name.removeprefix("./"): packed.extractfile(member)
                for member in packed
                if member.isfile()
            }
            contents = {name: stream.read() for name, stream in members.items() if stream}
        rows = {name: dict(row) for name, row in manifest["files"].items()}
        for path, data in contents.items():
            name = path.rpartition("/")[2]
            if path.endswith(f"/module/{name}") and name in rows:
                contents[path] = self.signed(data)
                rows[name].update(sha256=digest(contents[path]), signer=self.name)
        target = io.BytesIO()
        write_archive(target, contents)
        archive.write_bytes(target.getvalue())
        return {**manifest, "files": rows}


def load(key: str, certificate: str) -> Signer | None:
    """Key and certificate of two files, PEM or DER; None where none are named.

    Raises:
        InputError: they cannot be used, do not belong together, or others can read the key.
    """
    if not key and not certificate:
        return None
    if not (key and certificate):
        raise InputError(
            "'nvidia_driver_build_signing' needs both a 'key' and a 'certificate'.",
            "Name both files, or neither.",
        )
    path = Path(key).expanduser()
    try:
        if path.stat().st_mode & 0o077:
            raise InputError(f"Others can read the signing key '{path}'.", f"Run 'chmod 0600 {path}'.")
        private = _key(path.read_bytes())
        signer = Signer(_certificate(Path(certificate).expanduser().read_bytes()), private)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            f"The signing key or certificate cannot be used: {error}.",
            "Correct 'nvidia_driver_build_signing'.",
        ) from error
    if signer.certificate.public_key() != private.public_key():
        raise InputError(
            f"The signing key '{key}' does not belong to the certificate '{certificate}'.",
            "Correct 'nvidia_driver_build_signing'.",
        )
    return signer


def serial_number(certificate: str) -> str:
    """By which modinfo names the certificate of a signature: of a file, PEM or DER, in hexadecimal digits.

    Raises:
        InputError: it cannot be read.
    """
    try:
        found = _certificate(Path(certificate).expanduser().read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(
            f"The certificate '{certificate}' cannot be read: {error}.",
            "Correct 'nvidia_driver_build_signing', or run this where the file is.",
        ) from error
    return f"{found.serial_number:x}"


def _key(data: bytes) -> RSAPrivateKey:
    read = serialization.load_pem_private_key if b"-----BEGIN" in data else serialization.load_der_private_key
    found = read(data, password=None)
    if not isinstance(found, RSAPrivateKey):
        raise TypeError("it is no RSA key, and not every kernel takes others")
    return found


def _certificate(data: bytes) -> x509.Certificate:
    read = x509.load_pem_x509_certificate if b"-----BEGIN" in data else x509.load_der_x509_certificate
    return read(data)
