"""Signatures as the kernel's own program makes them, by openssl's word, and keys that are refused."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from gpusmith.probe.module_file import SIGNED, TRAILER, bare
from tests.unit.built.conftest import MODULE, Pair


def verified(module: bytes, pair: Pair, folder: Path) -> bool:
    """Whether openssl takes the signature behind a module for the certificate's."""
    assert module.endswith(SIGNED)
    end = len(module) - len(SIGNED) - TRAILER.size
    algorithm, hash_, kind, signer, key, length = TRAILER.unpack_from(module, end)
    assert (algorithm, hash_, kind, signer, key) == (0, 0, 2, 0, 0)
    (folder / "message").write_bytes(module[end - length : end])
    (folder / "content").write_bytes(module[: end - length])
    words: list[str | Path] = [
        "-verify",
        "-binary",
        "-inform",
        "DER",
        "-noverify",
        "-content",
        folder / "content",
    ]
    words += ["-certfile", pair.certificate, "-in", folder / "message", "-out", "/dev/null"]
    return subprocess.run(["openssl", "cms", *words], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")
def test_a_signature_holds_and_is_the_only_one(pair: Pair, tmp_path: Path) -> None:
    signer = pair.load()
    module = signer.signed(MODULE)
    assert verified(module, pair, tmp_path)
    assert bare(module) == MODULE
    # What the builder's own DKMS has signed before.
    other = Pair(tmp_path, "DKMS module signing key").load().signed(MODULE)
    assert signer.signed(other) == module
    altered = module.replace(b"a module", b"A module")
    assert not verified(altered, pair, tmp_path)
