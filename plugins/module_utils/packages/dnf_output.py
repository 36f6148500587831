"""What dnf's programs print."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import re
from typing import List, Mapping, Set

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.base import PackageError, Plan

LOCKED = re.compile(r"already locked by \d|can't create .*transaction lock|obtain the transaction lock")
ABORTED = "Operation aborted."
# What dnf says besides its errors.
NOISE = re.compile(
    r"^(?:\s*$|Importing GPG key| Userid | Fingerprint| From |Failed loading plugin|Detection of Platform Module"
    r"|Last metadata|\(try to |No repository match|warning: |Operation aborted|Repository .* is listed more than once"
    # Of plugins that are not there, and of Red Hat's, where a machine has no subscription.
    r"|No matches found for the following |Updating Subscription Management |Unable to read consumer identity"
    r"|This system is (?:not )?registered )"
)
ENTRY = re.compile(r"\s*(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s+[\d.]+(?: |\s+)[kMGT]?(?=\s|$)")
SECTION = re.compile(r"^(\S[^\n]*):\n", re.MULTILINE)
REPLACED = re.compile(r"\n +replacing +(\S+)\.\S+ +(\S+)")
SUMMARY = re.compile(r"^(Install|Upgrade|Downgrade|Remove) +(\d+) Packages?$", re.MULTILINE)
TOTAL = re.compile(r"(?m)^Total (?:download )?size: (\d+(?:\.\d+)?) ?([kMG]?)")
UNITS = {"": 1, "k": 1 << 10, "M": 1 << 20, "G": 1 << 30}
CANDIDATE = re.compile(r"best update candidate for package (\S+)-[^-\s]+-[^-\s]+(?=\s|$)")
UNFINISHED = re.compile(r"^End rpmdb +: +\*\*", re.MULTILINE)
STARTED = re.compile(r"^ \*\* (?:Dep-)?(?:Install|Upgrade|Downgrade|Reinstall) +(\S+)", re.MULTILINE)


def parse_plan(text: str, there: Mapping[str, str]) -> Plan:
    """The plan of ``dnf install --assumeno``.

    Args:
        text: its output.
        there: versions of installed packages, since the table tells new ones only.

    Raises:
        PackageError: the table and its summary disagree, so that it was not understood.
    """
    plan = Plan({}, {}, {})
    if "Transaction Summary" not in text:
        return plan
    _, _, table = text.partition("Dependencies resolved.\n")
    table, _, summary = table.partition("Transaction Summary")
    plan.removed.update(REPLACED.findall(table))
    table = REPLACED.sub("", table)
    counted = {"Install": 0, "Upgrade": 0, "Downgrade": 0, "Remove": 0}
    parts = SECTION.split(table)
    for title, body in zip(parts[1::2], parts[2::2]):
        verb = next((each for each in counted if title.startswith((f"{each}ing", f"{each[:-1]}ing"))), "")
        for name, _arch, version, _place in ENTRY.findall(body) if verb else ():
            counted[verb] += 1
            if verb == "Remove":
                plan.removed[name] = version
            elif verb == "Install" and name not in there:
                plan.installed[name] = version
            else:
                plan.changed[name] = (there.get(name, ""), version)
    told = {verb: int(number) for verb, number in SUMMARY.findall(summary)}
    if told != {verb: number for verb, number in counted.items() if number}:
        raise PackageError(f"What dnf would do was not understood: {' '.join(text.split())[-600:]}")
    return plan


def cause(stdout: str, stderr: str) -> str:
    """The lines that say what is wrong."""
    told = [" ".join(line.split()) for line in stderr.splitlines() if not NOISE.match(line)]
    return " ".join(told[:12]) or stdout[-300:]


def total_bytes(text: str) -> float:
    """Bytes that an installation would bring, with what comes along; infinite where the output does not tell."""
    found = TOTAL.search(text)
    return float(found[1]) * UNITS[found[2]] if found else float("inf")


def best_candidates(text: str) -> Set[str]:
    """Names of packages whose best version cannot be had, from the error of ``dnf upgrade`` with best=True."""
    return set(CANDIDATE.findall(text))


def is_unfinished(text: str) -> bool:
    """Whether the transaction of ``dnf history info`` was killed."""
    return bool(UNFINISHED.search(text))


def begun(text: str) -> List[str]:
    """Builds (name, version and architecture) whose change the transaction of ``dnf history info`` began and did not end."""
    return list(STARTED.findall(text))
