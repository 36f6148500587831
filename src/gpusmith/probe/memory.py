"""Memory, and its huge pages."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpusmith.probe.files import read_text

FOLDER = "/sys/kernel/mm/hugepages"


@dataclass(frozen=True)
class HugePages:
    """Huge pages of one size.

    Attributes:
        count: that the kernel has, free or in use; None if it cannot be read.
        locked: whether nobody on this machine can set it, as in a container.
    """

    count: int | None = None
    locked: bool = False


@dataclass(frozen=True)
class Memory:
    """The machine's memory.

    Attributes:
        total_kib: None if it cannot be read.
        huge_pages: by size as Kubernetes names it, all sizes that the kernel knows.
    """

    total_kib: int | None = None
    huge_pages: Mapping[str, HugePages] = field(default_factory=dict)


def size_of(kib: int) -> str:
    """A size as Kubernetes names it, such as 2Mi."""
    for unit in ("Ki", "Mi"):
        if kib % 1024:
            return f"{kib}{unit}"
        kib //= 1024
    return f"{kib}Gi"


def total_kib(text: str) -> int | None:
    """By the text of /proc/meminfo."""
    matched = re.search(r"^MemTotal:\s+(\d+) kB$", text, re.MULTILINE)
    return int(matched.group(1)) if matched else None


def huge_pages(folder: str = FOLDER) -> dict[str, HugePages]:
    """By size."""
    found = {}
    for path in sorted(glob.glob(os.path.join(folder, "hugepages-*kB"))):
        file = os.path.join(path, "nr_hugepages")
        text = (read_text(file) or "").strip()
        kib = int(os.path.basename(path)[len("hugepages-") : -len("kB")])
        count = int(text) if text.isdigit() else None
        found[size_of(kib)] = HugePages(count, not os.access(file, os.W_OK))
    return found


def gather() -> Memory:
    """The machine's memory."""
    return Memory(total_kib(read_text("/proc/meminfo") or ""), huge_pages())
