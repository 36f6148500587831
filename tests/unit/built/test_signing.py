"""Signatures as the kernel's own program makes them, by openssl's word, and keys that are refused."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils.built_archive import digest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from gpusmith.built import signing
from gpusmith.built.cache import Cache
from gpusmith.built.once import Once
from gpusmith.errors import InputError
from gpusmith.probe.module_file import SIGNED, TRAILER, bare
from tests.unit.built.conftest import KEY, MODULE, Host, Pair


def test_what_is_no_signature_stays(pair: Pair) -> None:
    for data in (MODULE, SIGNED, b"x" * 10 + SIGNED, MODULE + TRAILER.pack(0, 0, 2, 0, 0, 9999) + SIGNED):
        assert bare(data) == data
    assert bare(pair.load().signed(MODULE)) == MODULE


def test_an_archive_is_signed_as_a_whole_and_its_builder_takes_it(
    pair: Pair, cache: Cache, log: list[str]
) -> None:
    signer, host = pair.load(), Host("gpu-1", log)
    Once(cache, "gpu-1", "run", signer).provide(KEY, host)
    assert log == ["gpu-1 compiles", "gpu-1 takes"]
    (entry,) = host.taken
    row = entry.manifest["files"]["nvidia.ko"]
    with tarfile.open(fileobj=io.BytesIO(entry.archive.read_bytes())) as packed:
        (name,) = packed.getnames()
        stream = packed.extractfile(name)
        assert stream is not None
        data = stream.read()
    assert (digest(data), row["signer"], bare(data)) == (row["sha256"], "site modules", MODULE)
    # The key is on the controller alone, and not in what goes to nodes.
    assert b"PRIVATE" not in entry.archive.read_bytes()


def test_no_key_signs_nothing() -> None:
    assert signing.load("", "") is None


def test_what_cannot_sign_is_refused(pair: Pair, tmp_path: Path) -> None:
    other = Pair(tmp_path, "other")
    elliptic = Pair(tmp_path, "elliptic", "ec")
    shown = Pair(tmp_path, "shown")
    shown.key.chmod(0o644)
    for key, certificate, why in (
        (str(pair.key), "", "both"),
        (str(pair.key), str(other.certificate), "does not belong"),
        (str(tmp_path / "none"), str(pair.certificate), "No such file"),
        (str(shown.key), str(shown.certificate), "chmod 0600"),
        (str(elliptic.key), str(elliptic.certificate), "RSA"),
        (str(pair.key), str(pair.key), "cannot be used"),
    ):
        with pytest.raises(InputError, match=why):
            signing.load(key, certificate)


def test_the_number_of_a_certificate_is_read_without_its_key(tmp_path: Path) -> None:
    made = Pair(tmp_path, "site modules", number=0x0FAB12)
    assert signing.serial_number(str(made.certificate)) == made.load().number == "fab12"
    pem = tmp_path / "site.pem"
    certificate = x509.load_der_x509_certificate(made.certificate.read_bytes())
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    made.key.unlink()
    assert signing.serial_number(str(pem)) == "fab12"
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(InputError, match="cannot be read"):
            signing.serial_number(str(path))
    pem.write_text("no certificate")
    with pytest.raises(InputError, match="cannot be read"):
        signing.serial_number(str(pem))
