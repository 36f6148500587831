"""Hosts that build and take modules in memory, and a cache."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils.built_archive import digest, write_archive
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from gpusmith.built import signing
from gpusmith.built.cache import Cache, Entry
from gpusmith.built.key import Key
from gpusmith.built.once import BuildFailed

KEY = Key("6.1.0-40-amd64", "x86_64", "580.178.04", "open", "debian-12", "nvidia")
MODULE = b"\x7fELF a module"


@dataclass
class Host:
    """A node that compiles, or cannot.

    Attributes:
        log: what all of them did, in this order.
        fails: whether its compiler is broken.
        during: called while it compiles.
    """

    name: str
    log: list[str]
    fails: bool = False
    during: Callable[[], object] = lambda: None
    taken: list[Entry] = field(default_factory=list)

    def build(self, kernel: str, target: Path) -> tuple[Mapping[str, Any], bool]:
        self.log.append(f"{self.name} compiles")
        self.during()
        if self.fails:
            raise BuildFailed(f"Node '{self.name}': no compiler")
        with target.open("wb") as file:
            write_archive(file, {f"dkms_main_tree/{kernel}/x86_64/module/nvidia.ko": MODULE})
        row = {"sha256": digest(MODULE), "signer": "", "vermagic": kernel}
        return {"kernel": kernel, "version": KEY.version, "files": {"nvidia.ko": row}}, True

    def take(self, entry: Entry) -> None:
        self.log.append(f"{self.name} takes")
        self.taken.append(entry)


NUMBER = "7"
"""Serial number of certificates, as modinfo has it."""


class Pair:
    """A key and its certificate, in files."""

    def __init__(self, folder: Path, name: str, kind: str = "rsa", number: int = int(NUMBER)) -> None:
        key = (
            rsa.generate_private_key(public_exponent=65537, key_size=2048)
            if kind == "rsa"
            else ec.generate_private_key(ec.SECP256R1())
        )
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        now = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
        made = x509.CertificateBuilder(
            subject, subject, key.public_key(), number, now, now + dt.timedelta(days=9999)
        ).sign(key, hashes.SHA256())
        self.key, self.certificate = folder / f"{name}.key", folder / f"{name}.der"
        text = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        self.key.touch(mode=0o600)
        self.key.write_bytes(text)
        self.certificate.write_bytes(made.public_bytes(serialization.Encoding.DER))

    def load(self) -> signing.Signer:
        found = signing.load(str(self.key), str(self.certificate))
        assert found is not None
        return found


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return Pair(tmp_path_factory.mktemp("keys"), "site modules")


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(str(tmp_path / "cache"))


@pytest.fixture
def log() -> list[str]:
    return []


def together(*work: Callable[[], object]) -> list[object]:
    """What each of them returned or raised, run side by side."""
    ended: list[object] = [None] * len(work)

    def run(number: int) -> None:
        try:
            ended[number] = work[number]()
        except Exception as error:  # noqa: BLE001 - looked at by the test
            ended[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return ended
