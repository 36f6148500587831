"""Packages of the distributions' kernels, newer than the host's: what a machine would boot next. Nothing in them boots.

Machines run the host's kernel, whose name fits no distribution.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpulab.simgpu.packages import Deb, architecture, package, table


@dataclass(frozen=True)
class Kernel:
    """One release.

    Attributes:
        release: as ``uname -r`` would say it.
        version: of its packages, with revision or release.
        repository: which has it.
        values: what the rows of its packages may name in braces.
    """

    release: str
    version: str
    repository: str
    values: Mapping[str, str]


def upstream(running: str) -> str:
    """A version that every package manager and boot loader takes for newer than the kernel that runs."""
    major, minor = re.findall(r"\d+", running)[:2]
    return f"{major}.{int(minor) + 1}.0"


def known(family: str, tag: str = "") -> list[Kernel]:
    """The releases of a family, the oldest one first.

    Args:
        family: beginning of the name of its table.
        tag: the distribution's tag in releases of rpm packages.
    """
    number = upstream(os.uname().release)
    words = {
        "upstream": number,
        "series": number.rpartition(".")[0],
        "arch": architecture()[0],
        "machine": os.uname().machine,
        "tag": tag,
    }
    found = []
    for row in table(f"{family}-kernels")["kernels"]:
        values = {**words, **{key: str(text).format_map(words) for key, text in row.items()}}
        if "release" in row:
            values["evr"] = f"{values['version']}-{values['release']}"
            values["kernel"] = f"{values['evr']}.{values['machine']}"
        version = values["evr"] if "release" in row else values["deb"]
        found.append(Kernel(values["kernel"], version, values["repository"], values))
    return found


def templates(family: str) -> list[Mapping[str, Any]]:
    """Rows of the packages of each release."""
    rows: list[Mapping[str, Any]] = table(f"{family}-kernels")["packages"]
    return rows


def debs(family: str) -> Iterator[tuple[str, Deb]]:
    """Repository and package of all releases."""
    for kernel in known(family):
        for template in templates(family):
            yield kernel.repository, package(template, kernel.values, None)
