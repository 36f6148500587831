"""What an interrupted run of dpkg left half done: told, and finished without removing anything."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from typing import Set

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import apt_output
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.apt_machine import Machine, exact_words
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.base import (
    BusyError,
    PackageError,
    UnfinishedError,
)


def repair(machine: Machine) -> bool:
    """See `base.Backend`."""
    updates = machine.dpkg / "updates"
    journal = updates.is_dir() and any(updates.iterdir())
    if not journal and not apt_output.parse_half_done(machine.packages()):
        return False
    machine.configure()
    cut_off = apt_output.parse_cut_off(machine.packages())
    if cut_off:
        # In the version that is there: nobody asked for another. Where nobody offers it any more, one that is to come does as well.
        words = [*machine.get("install"), "--reinstall", "--no-remove", *exact_words(cut_off)]
        machine.change(words, accept=range(256))
    try:
        machine.check()
    except (BusyError, UnfinishedError):
        raise
    except PackageError:
        # What it would take to remove something is for a person to decide, who reads it in the next install's error.
        machine.change([*machine.get("install"), "--fix-broken", "--no-remove"], accept=range(256))
    return True


def lost(machine: Machine) -> Set[str]:
    """Packages that apt takes for installed and that are not: half unpacked, or without what they need.

    A machine that lost power while packages were unpacked has such; those that were only to be configured, `repair` finishes.
    """
    state = machine.packages()
    half_done = apt_output.parse_half_done(state)
    if not half_done:
        return set()
    said = machine.unmet()
    half_unpacked = (name for name, letter in half_done.items() if letter == apt_output.HALF_UNPACKED)
    return {*apt_output.parse_unmet(said), *apt_output.parse_cut_off(state), *half_unpacked}
