"""What a killed transaction of dnf left: two versions of a package, or one whose scripts did not end."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from typing import List, Sequence

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import dnf_output, rpm
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.base import (
    INSTALL_TIMEOUT_S,
    BusyError,
    PackageError,
    UnfinishedError,
)
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.dnf_machine import (
    ALONE,
    CHANGING,
    Machine,
    nevra,
)


def half_done(machine: Machine, rows: Sequence[rpm.Row]) -> List[str]:
    """Names of which a killed transaction has left two versions."""
    names = sorted(rpm.twice(rows))
    if not names:
        return []
    words = ["rpm", "-q", "--qf", "[%{=NAME}\\t%{PROVIDENAME}\\n]", *names]
    pairs = [line.split("\t") for line in machine.execute(words, 60).splitlines()]
    beside = {pair[0] for pair in pairs if rpm.SIDE_BY_SIDE.match(pair[-1])}
    return [name for name in names if name not in beside]


def repair(machine: Machine) -> bool:
    """See `base.Backend`.

    A killed transaction leaves packages in two versions, since the old ones go at its end, or one whose scripts did not end.
    """
    rows = machine.installed()
    last = machine.dnf(["-q", *ALONE, "history", "info", "last"], 60, accept=(0, 1))
    # Two versions that no killed transaction has left are a site's own matter.
    if not dnf_output.is_unfinished(last):
        return False
    halves, begun = half_done(machine, rows), dnf_output.begun(last)
    if not halves and not begun:
        return False
    # By the order of their coming: a version that is newer may be the one that was to go.
    kept = {row.name: row for row in sorted(rows, key=lambda row: int(row.place))}
    older = [nevra(row) for row in rows if row.name in halves and row != kept[row.name]]
    if older:
        words = ["rpm", "--erase", "--nodeps", *older]
        machine.execute(words, INSTALL_TIMEOUT_S, lock_timeout_s=machine.lock_timeout_s)
    again = sorted(nevra(row) for row in kept.values() if row.name in halves or nevra(row) in begun)
    return _run_scripts_of(machine, again) or bool(older)


def _run_scripts_of(machine: Machine, builds: Sequence[str]) -> bool:
    """Whether they could be run. Where no repository has a package, what they do is missed by who looks at the outcome."""
    words = [*ALONE, "--setopt=*.metadata_expire=never", *CHANGING, "reinstall", *builds]
    try:
        if builds:
            machine.dnf(words, INSTALL_TIMEOUT_S)
    except (BusyError, UnfinishedError):
        raise
    except PackageError:
        return False
    return bool(builds)
