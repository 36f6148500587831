"""What apt's and dpkg's programs print."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import re
from typing import Dict, List, Optional

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.base import Installed, Offers, Plan

QUERY = "${Package}\t${Version}\t${db:Status-Abbrev}\t${source:Package}\t${Architecture}\n"
# Ubuntu's amd64 has i386 beside it by default: dpkg lists a name once for each architecture, and one that is held by name alone is held
# for the machine's own. Packages of these have their architecture in the name, and are others'.
FOREIGN = ("i386", "armhf", "armel")
# A package's second state letter: unpacked, half configured, half installed, waiting for or having pending triggers.
HALF_DONE = set("UFHWt")
HALF_UNPACKED = "H"
# The third letter, where dpkg insists on another unpacking (dpkg-query(1), Db:Status-Abbrev).
REINSTALL = "R"
LOCKED = re.compile(r"Could not get lock|Unable to (?:acquire|lock)|lock was locked by another process")
HOLDER = re.compile(r"It is held by process \d+ \([^)\n]*\)")
# Then the packages are there, and no list would have helped.
UNPACKED = re.compile(r"Sub-process \S+/dpkg returned an error code")
UNMET = "The following packages have unmet dependencies:"
# What dpkg and the scripts of packages say is wrong; apt shows it as output.
SCRIPTS = re.compile(r"(?m)^(?:dpkg: error .*(?:\n .*)?|Error! .*|Consult .*)$")
INST = re.compile(r"^Inst (\S+?)(?::(\w+))?(?: \[([^\]]+)\])? \((\S+) ")
# Of what is gone but for its configuration files, apt tells no version.
REMV = re.compile(r"^(?:Remv|Purg) (\S+?)(?::(\w+))?(?: \[([^\]]+)\])?(?: |$)")


def named(name: str, architecture: Optional[str]) -> str:
    """A package as it is called here."""
    return f"{name}:{architecture}" if architecture in FOREIGN else name


def _rows(text: str) -> List[List[str]]:
    """Fields of ``dpkg-query`` by lines of `QUERY`."""
    return [fields for line in text.splitlines() if len(fields := line.split("\t")) == 5]


def parse_madison(text: str) -> Offers:
    """Versions by package from ``apt-cache madison``, newest first; lines about sources are left out."""
    found: Offers = {}
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) != 3 or fields[2].endswith(" Sources"):
            continue
        if fields[1] not in found.setdefault(fields[0], []):
            found[fields[0]].append(fields[1])
    return found


def parse_installed(text: str) -> Dict[str, Installed]:
    """Packages whose files are all there, of lines of `QUERY`."""
    return {
        named(name, architecture): Installed(version, status.startswith("h"), source)
        for name, version, status, source, architecture in _rows(text)
        if status[1:2] == "i"
    }


def parse_half_done(text: str) -> Dict[str, str]:
    """The second letter of their state, by name of packages that are neither installed nor gone, of the same lines."""
    return {
        named(name, architecture): status[1]
        for name, _version, status, _source, architecture in _rows(text)
        if status[1:2] in HALF_DONE
    }


def parse_cut_off(text: str) -> Dict[str, str]:
    """Versions of packages that were cut off while they were unpacked, of the same lines: dpkg configures none, it wants them unpacked anew."""
    return {named(row[0], row[4]): row[1] for row in _rows(text) if row[2][2:3] == REINSTALL}


def parse_simulation(text: str) -> Plan:
    """The plan of ``apt-get --simulate install``."""
    plan = Plan({}, {}, {})
    for line in text.splitlines():
        new, gone = INST.match(line), REMV.match(line)
        if new and new.group(3):
            plan.changed[named(*new.group(1, 2))] = (new.group(3), new.group(4))
        elif new:
            plan.installed[named(*new.group(1, 2))] = new.group(4)
        elif gone:
            plan.removed[named(*gone.group(1, 2))] = gone.group(3) or ""
    return plan


def parse_unmet(text: str) -> List[str]:
    """Packages that lack what they need, by what ``apt-get check`` says."""
    _, _, unmet = text.partition(UNMET)
    return list(dict.fromkeys(re.findall(r"(?m)^ (\S+) : ", unmet)))


def parse_owner(text: str) -> Optional[str]:
    """The first package that ``dpkg-query --search`` names."""
    for line in text.splitlines():
        names, _, path = line.partition(": ")
        if path and not line.startswith("diversion by"):
            return names.split(",")[0].split(":")[0].strip()
    return None


def cause(stdout: str, stderr: str) -> str:
    """The lines that say what is wrong; which dependency is not met stands in the other output."""
    told = [line for line in stderr.splitlines() if line.startswith(("E:", "dpkg:"))]
    told = list(dict.fromkeys(told)) or stderr.splitlines()[-3:]
    if UNPACKED.search(stderr):
        told += [" ".join(words.split()) for words in dict.fromkeys(SCRIPTS.findall(stdout))]
    # What waited says it while it does, and that it failed at the end.
    if HOLDER.search(stdout) and LOCKED.search(stderr) and not HOLDER.search(stderr):
        told.append(HOLDER.findall(stdout)[-1])
    _, found, unmet = stdout.partition(UNMET)
    if found:
        lines = [" ".join(line.split()) for line in unmet.splitlines() if line.startswith(" ")]
        told.append("Unmet: " + "; ".join(lines[:5]))
    return " ".join(told) or stdout[-300:]
