"""Sources of apt that contradict each other: one repository with two keys, and apt reads no list at all.

Docker's instructions and NVIDIA's package cuda-keyring write a source with a key of their own, Debian 13's installer one for the archive.
"""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Iterator, List

from ansible_collections.gpusmith.gpu.plugins.module_utils.files import read
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.base import PackageError

OURS = "gpusmith-"
TWO_KEYS = re.compile(r"Conflicting values set for option Signed-By regarding source (\S+)")


def naming(address: str, etc: Path) -> List[str]:
    """The machine's own files of sources that name a repository.

    Args:
        address: of the repository.
        etc: the folder of apt's configuration.
    """
    files = [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]
    own = [path for path in files if path.suffix in (".list", ".sources") and not path.name.startswith(OURS)]
    return [str(path) for path in own if _names(read(path) or "", address.rstrip("/"))]


def _names(text: str, address: str) -> bool:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    return any(_is(word.rstrip("/"), address) for line in lines for word in line.split())


def _is(word: str, address: str) -> bool:
    """Whether a word is an address. apt tells it with the machine's architecture, for which files may have '$(ARCH)'."""
    return re.fullmatch(re.escape(word).replace(re.escape("$(ARCH)"), "[a-z0-9]+"), address) is not None


@contextlib.contextmanager
def told(etc: Path) -> Iterator[None]:
    """Inside of it, an error about two keys says where the machine's own source is, and what can be done."""
    try:
        yield
    except PackageError as error:
        found = TWO_KEYS.search(str(error))
        if not found:
            raise
        where = " and ".join(f"'{path}'" for path in naming(found[1], etc)) or "its files of sources"
        raise PackageError(
            f"{error} The machine has this repository with another key, in {where}. Remove it there, give 'uris' in the inventory another"
            " address of it, or let the machine's own source name no key."
        ) from error
