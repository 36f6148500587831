"""apt as the roles use it: one signed repository, packages of an exact version, pinned and held.

Standard library only, Python 3.8 or newer: it runs on the node. Sources are written in apt's deb822 form with the
key inside; Ansible's own `deb822_repository` needs python3-debian, which a bare machine does not have.
"""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, Sequence

SOURCES = Path("/etc/apt/sources.list.d")
PREFERENCES = Path("/etc/apt/preferences.d")
# Above 1000, so that a newer version that is already there is replaced as well.
PIN_PRIORITY = 1001
UPDATE_TIMEOUT_S = 300
INSTALL_TIMEOUT_S = 1800
LOCK_TIMEOUT_S = 300
Versions = Dict[str, List[str]]


class AptError(Exception):
    """apt cannot do what was asked; the text says what and what to look at."""


def render_source(repository: Mapping[str, Any], owner: str) -> str:
    """The repository in deb822 form.

    Args:
        repository: uris, suites, components and key (an armored public key).
        owner: who wrote the file.

    Raises:
        AptError: it has no address, no suite or no key.
    """
    for field in ("uris", "suites", "key"):
        if not repository.get(field):
            raise AptError(
                f"The repository of '{owner}' has no '{field}'. Set it in the inventory; unsigned ones are refused."
            )
    key = str(repository["key"]).strip()
    if "BEGIN PGP PUBLIC KEY BLOCK" not in key:
        raise AptError(
            f"The key of the repository of '{owner}' is no armored public key ('-----BEGIN PGP PUBLIC KEY BLOCK-----')."
        )
    lines = [
        f"# Written by gpusmith for {owner}.",
        "Types: deb",
        "URIs: " + " ".join(repository["uris"]),
        "Suites: " + " ".join(repository["suites"]),
    ]
    if repository.get("components"):
        lines.append("Components: " + " ".join(repository["components"]))
    lines.append("Signed-By:")
    lines += [" " + (line.rstrip() or ".") for line in key.splitlines()]
    return "\n".join(lines) + "\n"


def render_preferences(pins: Mapping[str, str], owner: str) -> str:
    """Apt preferences that allow each package only its version."""
    blocks = [f"# Written by gpusmith for {owner}.\n"]
    blocks += [
        f"Package: {name}\nPin: version {version}\nPin-Priority: {PIN_PRIORITY}\n"
        for name, version in sorted(pins.items())
    ]
    return "\n".join(blocks)


def satisfies(version: str | None, wanted: str) -> bool:
    """Whether a package's version is the wanted one; '1.36.3' is satisfied by '1.36.3-1.1' and '1:1.36.3-1', '12.8.*' by '12.8.1-1'."""
    if version is None:
        return False
    plain = re.sub(r"^\d+:", "", version)
    if wanted.endswith(".*"):
        return plain.startswith(wanted[:-1])
    return wanted in (version, plain) or plain.startswith((wanted + "-", wanted + "+", wanted + "~"))


def newest_match(versions: Iterable[str], wanted: str) -> str | None:
    """The first version that satisfies; apt lists newer ones first."""
    return next((version for version in versions if satisfies(version, wanted)), None)


def parse_madison(text: str) -> Versions:
    """Versions by package from ``apt-cache madison``, newest first."""
    found: Versions = {}
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) == 3 and fields[1] not in found.setdefault(fields[0], []):
            found[fields[0]].append(fields[1])
    return found


def parse_installed(text: str) -> dict[str, dict[str, Any]]:
    r"""Packages of ``dpkg-query -W -f '${Package}\t${Version}\t${db:Status-Abbrev}\n'`` whose files are all there."""
    found = {}
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) == 3 and fields[2][1:2] == "i":
            found[fields[0]] = {"version": fields[1], "held": fields[2].startswith("h")}
    return found


def run(words: Sequence[str], timeout_s: float, accept: Sequence[int] = (0,)) -> str:
    """Standard output of a program that asks nothing and restarts nothing.

    Raises:
        AptError: it failed or did not end in time; with the lines that name the error.
    """
    environment = dict(
        os.environ,
        LC_ALL="C",
        DEBIAN_FRONTEND="noninteractive",
        NEEDRESTART_MODE="l",
        APT_LISTCHANGES_FRONTEND="none",
    )
    try:
        done = subprocess.run(
            list(words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env=environment,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired as error:
        raise AptError(f"'{' '.join(words[:2])}' did not end within {timeout_s:.0f} s.") from error
    except OSError as error:
        raise AptError(f"'{words[0]}' cannot be run: {error}") from error
    if done.returncode not in accept:
        told = [
            line for line in done.stderr.splitlines() if line.startswith(("E:", "dpkg:"))
        ] or done.stderr.splitlines()[-3:]
        raise AptError(f"'{' '.join(words[:2])}' failed: {' '.join(told) or done.stdout[-300:]}")
    return done.stdout


def only(source: Path) -> list[str]:
    """Options that make apt-get update read one source and leave the lists of the others alone."""
    return [
        "-o",
        f"Dir::Etc::SourceList={source}",
        "-o",
        "Dir::Etc::SourceParts=-",
        "-o",
        "APT::Get::List-Cleanup=0",
    ]


def update(options: Sequence[str]) -> None:
    """Read the package lists; unlike apt-get's own default an address that does not answer is an error."""
    run(["apt-get", "update", "-q", "-o", "APT::Update::Error-Mode=any", *options], UPDATE_TIMEOUT_S)


def installed(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Version and hold of the packages that are installed."""
    listed = sorted(names)
    if not listed:
        return {}
    # Status 1 only says that one of them is unknown.
    return parse_installed(
        run(
            ["dpkg-query", "-W", "-f", "${Package}\t${Version}\t${db:Status-Abbrev}\n", *listed],
            60,
            accept=(0, 1),
        )
    )


def available(names: Iterable[str], options: Sequence[str] = ()) -> Versions:
    """Versions that the package lists offer, newest first."""
    return parse_madison(run(["apt-cache", *options, "madison", *sorted(names)], 60, accept=(0, 100)))


def repository_versions(repository: Mapping[str, Any], owner: str, names: Iterable[str]) -> Versions:
    """What a repository offers, asked by apt itself, signature included, in a folder that vanishes afterwards.

    Raises:
        AptError: the repository does not answer, or its signature is not by the given key.
    """
    with tempfile.TemporaryDirectory(prefix="gpusmith-apt-") as name:
        root = Path(name)
        # apt downloads as its own user.
        root.chmod(0o755)
        source = root / "asked.sources"
        source.write_text(render_source(repository, owner), encoding="utf-8")
        for folder in ("state/lists/partial", "cache/archives/partial"):
            (root / folder).mkdir(parents=True)
        options = [
            *only(source),
            *(
                "-o",
                f"Dir::State={root}/state",
                "-o",
                f"Dir::Cache={root}/cache",
                "-o",
                "Dir::State::status=/dev/null",
            ),
            *("-o", "APT::Sandbox::User=root", "-o", "Acquire::Languages=none", "-o", "Acquire::Retries=1"),
        ]
        update(options)
        return available(names, options)
