"""Signed flat apt repositories, with a key that is made once per machine."""

from __future__ import annotations

import gzip
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpulab.progress import run_logged
from gpusmith.errors import ToolError
from gpusmith.paths import cache_dir

IDENTITY = "gpusmith lab packages <lab@gpusmith.invalid>"


@dataclass(frozen=True)
class SigningKey:
    """A key pair in files; no agent keeps running for it.

    Attributes:
        public: armored public key.
        secret: armored secret key, readable by its owner only.
    """

    public: Path
    secret: Path


def signing_key(folder: Path) -> SigningKey:
    """This machine's key, made on the first call."""
    key = SigningKey(folder / "public.asc", folder / "secret.asc")
    if key.public.exists() and key.secret.exists():
        return key
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    with gnupg() as gpg:
        gpg("--quick-generate-key", "--passphrase", "", IDENTITY, "ed25519", "sign", "never")
        key.secret.touch(mode=0o600)
        key.secret.write_bytes(gpg("--armor", "--export-secret-keys", IDENTITY))
        key.public.write_bytes(gpg("--armor", "--export", IDENTITY))
    return key


def index(folder: Path, name: str, key: SigningKey, called: Mapping[str, str] | None = None) -> None:
    """Make a folder of packages a signed repository of apt's flat kind ('deb URI ./').

    Args:
        folder: holds the .deb files.
        name: its Origin and Label.
        key: signs it.
        called: fields of Release that are others, as unattended-upgrades looks for them.

    Raises:
        ToolError: apt-ftparchive or gpg failed.
    """
    packages = _output(["apt-ftparchive", "packages", "."], folder)
    (folder / "Packages").write_bytes(packages)
    (folder / "Packages.gz").write_bytes(gzip.compress(packages, mtime=0))
    options = {
        "Origin": f"gpusmith-lab-{name}",
        "Label": f"gpusmith-lab-{name}",
        "Suite": "lab",
        "Architectures": "amd64",
        **(called or {}),
    }
    command = ["apt-ftparchive"]
    for option, value in options.items():
        command += ["-o", f"APT::FTPArchive::Release::{option}={value}"]
    release = folder / "Release"
    content = _output([*command, "release", "."], folder)
    release.write_bytes(content)
    with gnupg() as gpg:
        gpg("--import", str(key.secret))
        gpg("--clearsign", "--output", str(folder / "InRelease"), str(release))
        gpg("--armor", "--detach-sign", "--output", str(folder / "Release.gpg"), str(release))


class Gpg:
    """gpg with a home folder of its own.

    Attributes:
        home: that folder.
    """

    def __init__(self, home: str) -> None:
        self.home = home

    def __call__(self, *arguments: str) -> bytes:
        """Standard output of one call."""
        command = [
            "gpg",
            "--homedir",
            self.home,
            "--batch",
            "--yes",
            "--pinentry-mode",
            "loopback",
            *arguments,
        ]
        return _output(command, Path("/"))


@contextmanager
def gnupg() -> Iterator[Gpg]:
    """A gpg that knows no key, for as long as the context lasts."""
    # A short path of its own: gpg-agent's socket must fit into 107 bytes, and the agent is ended with the folder.
    with tempfile.TemporaryDirectory(prefix="gpulab-gpg-") as home:
        try:
            yield Gpg(home)
        finally:
            subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], capture_output=True, check=False)


def _output(command: Sequence[str], folder: Path) -> bytes:
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode != 0:
        raise ToolError(
            f"'{command[0]}' failed in '{folder}': {done.stderr.decode(errors='replace').strip()}."
        )
    return done.stdout


def place(archives: Sequence[Path], folder: Path) -> None:
    """Put packages into a repository's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if archives:
        run_logged(["cp", "--reflink=auto", *archives, folder], cache_dir() / "logs" / "packages.log")
