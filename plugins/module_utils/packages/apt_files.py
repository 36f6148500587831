"""Text of the files that apt and dpkg read."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import re
from typing import Iterable, Mapping, Sequence

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.apt_output import named
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.base import Repository

# Above 1000, so that a newer version that is already there is replaced as well.
PIN_PRIORITY = 1001


def render_source(repository: Repository, owner: str) -> str:
    """The repository in deb822 form."""
    lines = [
        f"# Written by gpusmith for {owner}.",
        "Types: deb",
        "URIs: " + " ".join(repository.uris),
        "Suites: " + " ".join(repository.suites),
    ]
    if repository.components:
        lines.append("Components: " + " ".join(repository.components))
    lines.append("Signed-By:")
    lines += [" " + (line.rstrip() or ".") for line in repository.key.splitlines()]
    return "\n".join(lines) + "\n"


def render_preferences(pins: Mapping[str, Sequence[str]], owner: str) -> str:
    """Apt preferences that allow each package, by name or pattern, only its versions."""
    blocks = [f"# Written by gpusmith for {owner}.\n"]
    blocks += [
        f"Package: {name}\nPin: version {version}\nPin-Priority: {PIN_PRIORITY}\n"
        for name, versions in sorted(pins.items())
        for version in versions
    ]
    return "\n".join(blocks)


def without_holds(status: str, names: Iterable[str]) -> str:
    """Text of dpkg's status in which these packages are not held."""
    listed = "|".join(map(re.escape, names))
    return re.sub(rf"(?m)^(Package: (?:{listed})\n(?:[^\n]+\n)*?Status: )hold ", r"\1install ", status)


def without_packages(status: str, names: Iterable[str]) -> str:
    """Text of dpkg's status in which these packages are not there at all."""
    gone = set(names)
    return "\n\n".join(block for block in status.split("\n\n") if _name_of(block) not in gone)


def _name_of(block: str) -> str:
    fields = dict(re.findall(r"(?m)^(Package|Architecture): (\S+)$", block))
    name: str = named(fields.get("Package", ""), fields.get("Architecture"))
    return name
