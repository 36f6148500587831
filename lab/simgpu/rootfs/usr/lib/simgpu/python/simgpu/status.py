"""What the simulated machine is doing, for people and programs."""

from __future__ import annotations

from typing import TypedDict

from simgpu import faults_file, paths
from simgpu.hardware import hardware
from simgpu.modules import references
from simgpu.state import FABRIC, State


class Module(TypedDict):
    """A loaded module."""

    version: str
    references: int


class Status(TypedDict):
    """What ``simgpu status --json`` prints."""

    schema: str
    simulated: bool
    machine: str
    model: str
    pci: list[str]
    modules: dict[str, Module]
    flavour: str | None
    fabric: str
    gpus: list[dict[str, str]]
    faults: list[faults_file.Row]


def status() -> Status:
    """Hardware, driver and faults as they are now."""
    machine = hardware()
    state = State.load()
    version = state.values["version"]
    return {
        "schema": "gpusmith.simgpu.status/1",
        "simulated": True,
        "machine": machine["machine"],
        "model": machine["model"],
        "pci": sorted(entry.name for entry in (paths.PCI / "devices").iterdir() if not entry.is_symlink()),
        "modules": {
            name: {"version": version, "references": references(state, name)} for name in state.modules
        },
        "flavour": state.values["flavour"] or None,
        "fabric": {number: name for name, number in FABRIC.items()}[int(state.values["fabric"])],
        "gpus": state.gpus,
        "faults": faults_file.present(),
    }


def human(content: Status) -> str:
    """The same for people."""
    modules = content["modules"].items()
    loaded = ", ".join(f"{name} {row['version']} ({row['references']} users)" for name, row in modules)
    lines = [
        f"SIMULATED {content['model']} on {content['machine']}",
        f"modules: {loaded or 'none'}",
        f"fabric: {content['fabric']}",
    ]
    for gpu in content["gpus"]:
        lost = " LOST" if gpu["lost"] == "1" else ""
        lines.append(f"gpu minor {gpu['minor']} {gpu['pci']} {gpu['uuid']}{lost}")
    lines += [f"fault: {row['kind']} {row.get('pci') or ''}" for row in content["faults"]]
    return "\n".join(lines)
