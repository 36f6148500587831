"""Packages of the depot in another version, or with another program, published beside the others."""

from __future__ import annotations

import subprocess
from pathlib import Path

from gpulab.artifacts import repos

from gpusmith.paths import state_dir

FOLDER = "newer"
# A program that does not start.
SPOILT = "#!/bin/sh\nexit 1\n"


def run(*words: str | Path) -> None:
    """A program that must succeed."""
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


def fetched(place: str, name: str, version: str, folder: Path) -> Path:
    """An archive of the depot, copied to a folder of this machine."""
    archive = folder / f"{name}_{version}_amd64.deb"
    run("podman", "cp", f"gpulab-depot:/srv/apt/{place}/{archive.name}", archive)
    return archive


def repacked(source: Path, target: Path, old: str, new: str, program: tuple[str, str] = ("", "")) -> None:
    """A package of another version, with another program at a path if one is given."""
    work = target / "work"
    run("dpkg-deb", "-R", source, work)
    control = work / "DEBIAN" / "control"
    control.write_text(control.read_text().replace(old, new))
    path, text = program
    if path:
        (work / path).write_text(text)
    run("dpkg-deb", "--root-owner-group", "-Zgzip", "-b", work, target / source.name.replace(old, new))
    run("rm", "-r", work)


def published(folder: Path) -> None:
    """Put a folder of archives beside the repositories of the depot, signed with the same key."""
    repos.index(folder, FOLDER, repos.signing_key(state_dir() / "keys" / "apt"))
    run("podman", "cp", folder, f"gpulab-depot:/srv/{FOLDER}")
