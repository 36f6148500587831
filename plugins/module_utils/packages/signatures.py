"""Whether rpms are signed by keys that they have to be signed by."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Callable, Mapping, Sequence

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.base import PackageError

LEVEL = ("--define", "_pkgverify_level signature")


def check(files: Sequence[Path], keys: Mapping[str, str], execute: Callable[..., str]) -> None:
    """Compare rpms with armored keys, and with no other ones that the machine knows.

    A key that rpm does not take proves nothing: EL 9 takes none with SHA-1 signatures, and vendors had such ones.

    Args:
        files: the rpms.
        keys: armored keys by what they are called.
        execute: runs programs.

    Raises:
        PackageError: one is signed by none of them; it is named.
    """
    with tempfile.TemporaryDirectory(prefix="gpusmith-keys-") as name:
        database = ["--dbpath", f"{name}/database"]
        refused = []
        for called, text in keys.items():
            path = Path(name, "key.asc")
            path.write_text(text, encoding="utf-8")
            try:
                execute(["rpmkeys", *database, "--import", str(path)], 60)
            except PackageError:
                refused.append(f"'{called}'")
        hint = (
            f" Of its keys, rpm did not take {', '.join(refused)}; EL 9 and later take none with SHA-1 signatures."
            if refused
            else ""
        )
        for file in files:
            words = ["rpmkeys", *database, *LEVEL, "--checksig", str(file)]
            if " signatures OK" not in execute(words, 60, accept=range(256)):
                raise PackageError(
                    f"'{file.name}' is not signed by a key of its repository.{hint} Correct 'key' or 'signed' of the repository, "
                    "or ask who publishes it."
                )
