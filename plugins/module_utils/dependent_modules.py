"""Modules of others that are compiled against the driver's sources, built anew by DKMS after the driver has changed."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import re
from pathlib import Path
from typing import List, Sequence

from ansible_collections.gpusmith.gpu.plugins.module_utils.built_modules import (
    STATUS,
    BuiltModulesError,
    Run,
    compiler_said,
    last_words,
)

TREE = Path("/var/lib/dkms")


def rebuild(run: Run, name: str, kernel: str, tree: Path = TREE) -> str:
    """Have DKMS build a module for a kernel and install it, whatever it has built before; its version.

    DKMS has no way to build what it has built: it forgets that first. If that fails, or is killed, the kernel has none, and the probe says so.

    Args:
        run: runs a program: its status, output and errors.
        name: what DKMS calls the module.
        kernel: release.
        tree: where DKMS keeps what it knows; replaced in tests.

    Raises:
        BuiltModulesError: it does not compile, or DKMS does not know it.
    """
    _status, output, _errors = run(["dkms", "status", "-m", name])
    rows = [found for found in map(STATUS.match, output.splitlines()) if found and found["name"] == name]
    if not rows:
        raise BuiltModulesError("dkms", "DKMS knows no module '{}'.".format(name))
    built = [row for row in rows if row["kernel"] == kernel]
    # Of several versions, the one that the kernel has; else the newest.
    there = [row for row in built if row["state"] == "installed"]
    version = max((str(row["version"]) for row in there or rows), key=_numbers)
    named = ["-m", name, "-v", version, "-k", kernel]
    if any(row["version"] == version for row in built):
        _must(run, ["dkms", "unbuild", *named])
    # From 3.1.4 on DKMS wants what 'BUILD_DEPENDS' names to be installed, and packagers give the driver's module other names than nvidia-fs
    # does; and whatever release it is, a file of the same version that lies elsewhere would stay in its place.
    words = ["dkms", "install", *named, "--force"]
    status, output, errors = run(words)
    if status == 0:
        return version
    log = tree / name / version / "build/make.log"
    said = compiler_said(log.read_text(errors="replace")) if log.is_file() else last_words(errors + output)
    raise BuiltModulesError(
        "dependent",
        "Module '{}' {} cannot be built for kernel '{}' and this driver: {}. '{}' ended with {}; its log is '{}' there.".format(
            name, version, kernel, said, " ".join(words), status, log
        ),
    )


def _numbers(version: str) -> List[int]:
    return [int(number) for number in re.findall(r"[0-9]+", version)]


def _must(run: Run, words: Sequence[str]) -> None:
    status, output, errors = run(words)
    if status != 0:
        raise BuiltModulesError(
            "dkms", "'{}' ended with {}: {}".format(" ".join(words), status, last_words(errors + output))
        )
