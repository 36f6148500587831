"""What systemd runs as containerd and as kubelet, and which package brings that program."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import Mapping

from gpusmith.probe.commands import Command

# By the names that their packages give them; the program has the same one.
UNITS = ("containerd", "kubelet")
# Services of distributions of Kubernetes that bring a kubelet and a containerd of their own.
DISTRIBUTIONS = (
    "k3s", "k3s-agent", "rke2-server", "rke2-agent", "k0scontroller", "k0sworker", "snap.kubelet.daemon",
    "snap.kubelet-eks.daemon", "snap.k8s.kubelet", "snap.microk8s.daemon-kubelite",
)  # fmt: skip
# Programs that are known to print their version with '--version' and to do nothing else.
TELLING = (*UNITS, "k3s", "rke2")
# Folders that are links to those below /usr, so that a package may name a file either way.
MERGED = re.compile(r"^(?:/usr)?(/s?bin/.*)")
PACKAGE = re.compile(r"^([a-z0-9][^\s:,]*)[^\s]*(?:, [^/]*)?: /", re.MULTILINE)


@dataclass(frozen=True)
class Program:
    """The program of a unit that systemd has loaded.

    Attributes:
        active: of the unit, as systemd says it.
        unit_file: path.
        command: program in its ExecStart.
        path: of the program that runs; of the command, where none runs or where that is a script.
        owner: package that brings it; empty if none does, None if that is not known.
        version: as it says itself; None if it was not asked, which those in the place of a package are not.
    """

    active: str
    unit_file: str
    command: str
    path: str
    owner: str | None = None
    version: str | None = None


def parse_units(text: str) -> dict[str, tuple[Program, str]]:
    """Loaded units of ``systemctl show`` with a program, and the number of their main process."""
    found = {}
    for block in text.split("\n\n"):
        keys = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        command = re.search(r"path=(\S+) ;", keys.get("ExecStart", ""))
        if keys.get("LoadState") == "loaded" and command:
            program = Program(
                keys.get("ActiveState", ""), keys.get("FragmentPath", ""), command.group(1), command.group(1)
            )
            found[keys.get("Id", "").rpartition(".")[0]] = (program, keys.get("MainPID", "0"))
    return found


def running(name: str, program: Program, pid: str, folder: str = "/proc") -> Program:
    """With what runs as its main process; a script that starts another program is taken by its own name."""
    try:
        path = os.readlink(f"{folder}/{pid}/exe").replace(" (deleted)", "")
    except OSError:
        return program
    return replace(program, path=path) if name not in UNITS or os.path.basename(path) == name else program


def names_of(path: str) -> list[str]:
    """What a package may call a file."""
    found = [path, os.path.realpath(path)]
    for each in list(found):
        merged = MERGED.match(each)
        found += [merged.group(1), f"/usr{merged.group(1)}"] if merged else []
    return list(dict.fromkeys(found))


def parse_owner(text: str, database: str) -> str:
    """Name of the package in an answer of ``dpkg-query -S`` or ``rpm -qf``; empty if there is none."""
    if database == "dpkg":
        found = PACKAGE.search(text)
        return found.group(1) if found else ""
    return next((line for line in text.splitlines() if re.fullmatch(r"\S+", line)), "")


def parse_version(text: str) -> str | None:
    """The version in what a program prints."""
    found = re.search(r"\bv?(\d+\.\d+\.\d+\S*)", text)
    return found.group(1) if found else None


def in_place(name: str, program: Program) -> bool:
    """Whether it lies where the roles' packages bring theirs, and a package brings it as far as that is known."""
    return program.owner != "" and program.path in (f"/usr/bin/{name}", f"/bin/{name}")


def ask() -> Command:
    """Start systemctl."""
    units = [f"{name}.service" for name in (*UNITS, *DISTRIBUTIONS)]
    return Command(
        "systemctl", "show", "--property=Id,LoadState,ActiveState,FragmentPath,MainPID,ExecStart", *units
    )


Asked = Mapping[str, "tuple[Program, Command | None]"]


def ask_owners(asked: Command, database: str, errors: list[str]) -> Asked:
    """Start the package manager's query for each program, beside what else is asked."""
    query = {"dpkg": ("dpkg-query", "-S"), "rpm": ("rpm", "-qf", "--qf", "%{NAME}\\n")}.get(database)
    found = {}
    for name, (unit, pid) in parse_units(asked.output(errors) or "").items():
        program = running(name, unit, pid)
        paths = names_of(program.path)
        found[name] = (program, Command(*query, *paths) if query and name in UNITS else None)
    return found


def gather(asked: Asked, database: str, errors: list[str]) -> dict[str, Program]:
    """Programs by unit without '.service'."""
    found = {}
    for name, (program, query) in asked.items():
        # Status 1: one of the paths is no package's.
        text = query.output(errors, accept=None) if query else None
        known = replace(program, owner=None if text is None else parse_owner(text, database))
        found[name] = known if in_place(name, known) else replace(known, version=_version(known.path))
    return found


def _version(path: str) -> str | None:
    if os.path.basename(path) not in TELLING:
        return None
    return parse_version(Command(path, "--version").output([]) or "")
