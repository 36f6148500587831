"""What preflight makes of firmware that wants signed modules, and of a site's key."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from cryptography import x509

from gpusmith.errors import Refusal
from gpusmith.preflight import secure_boot
from gpusmith.preflight.secure_boot import SiteKey, site_key
from tests.unit.hosts import run


def made(folder: Path, *extensions: str) -> dict[str, str]:
    """A key and its certificate by openssl."""
    files = {"key": str(folder / "site.key"), "certificate": str(folder / "site.pem")}
    configuration = folder / "openssl.cnf"
    configuration.write_text(
        "[req]\ndistinguished_name=n\nx509_extensions=e\nprompt=no\n[n]\nCN=site\n[e]\n"
        + "\n".join(extensions)
    )
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-set_serial", "0x0fab12"]
    out = ["-config", str(configuration), "-keyout", files["key"], "-out", files["certificate"]]
    subprocess.run([*command, *out], check=True, capture_output=True)
    Path(files["key"]).chmod(0o600)
    return files


def asked(files: dict[str, str], **changed: Any) -> SiteKey | Refusal | None:
    return site_key(
        run(**{"nvidia_driver_build": "once_per_kernel", "nvidia_driver_build_signing": files, **changed})
    )


def test_a_certificate_has_the_number_by_which_the_kernel_lists_it(tmp_path: Path) -> None:
    files = made(tmp_path, "subjectKeyIdentifier=0A:1B:2C")
    assert asked(files) == SiteKey(files["certificate"], "0a1b2c")
    bare = x509.load_pem_x509_certificate(
        Path(made(tmp_path, "subjectKeyIdentifier=none")["certificate"]).read_bytes()
    )
    assert secure_boot.number(bare) == "0fab12"


def test_a_key_counts_only_where_it_signs(tmp_path: Path) -> None:
    files = made(tmp_path, "subjectKeyIdentifier=hash")
    assert isinstance(asked(files), SiteKey)
    assert asked(files, nvidia_driver_build="every_node") is None
    assert asked(files, nvidia_driver_module_build="prebuilt") is None
    assert asked({}) is None


def test_files_that_are_no_key_are_refused_with_what_to_do(tmp_path: Path) -> None:
    files = made(tmp_path, "subjectKeyIdentifier=hash")
    for wrong in ({"key": files["key"]}, {**files, "key": str(tmp_path / "none")}):
        found = asked(wrong)
        assert isinstance(found, Refusal)
        assert found.message.startswith("signing key: ")
        assert "nvidia_driver_build_signing" in found.message + found.hint
