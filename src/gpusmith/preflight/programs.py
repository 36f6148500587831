"""Whether containerd and kubelet are those of packages, by what systemd runs on the machine."""

from __future__ import annotations

from collections.abc import Iterator

from gpusmith.errors import Refusal
from gpusmith.node.records import load
from gpusmith.preflight.words import Facts, Tables, Wanted, refusal
from gpusmith.probe.programs import UNITS, Program, in_place

BEFORE_PACKAGES = ("/etc/", "/run/", "/usr/local/")
"""Where a unit's file goes before that of a package (systemd.unit(5), 'Unit File Load Path')."""
ROLES = {"containerd": "containerd", "kubelet": "kubernetes_node"}


def check_programs(facts: Facts, wanted: Wanted, _tables: Tables) -> Iterator[Refusal]:
    """Nobody else's containerd and kubelet: packages beside them would leave a node that two ways were used to set up."""
    raw = facts["record"]
    joined = bool(raw["kubernetes"]["joined"])
    if wanted.no_driver:
        return
    for name, row in sorted((raw.get("programs") or {}).items()):
        program = load(Program, row)
        if name not in UNITS:
            if program.active != "inactive":
                yield refusal(
                    "Kubernetes of this machine",
                    f"{_runs(name, program)}, a kubelet of its own",
                    "no other Kubernetes than the one that site.yml joins",
                    _leave_out(),
                )
        elif wanted.node.manages(ROLES[name]) and not in_place(name, program) and _counts(program, joined):
            nobody = "no package is known to own" if program.owner is None else "no package owns"
            owner = f"package '{program.owner}' brings" if program.owner else nobody
            yield refusal(
                f"{name} of {'a joined node' if joined else 'this machine'}",
                f"{_runs(name, program)}, which {owner}",
                f"the package's, '/usr/bin/{name}', which role '{ROLES[name]}' installs and holds",
                _step(joined, ROLES[name]),
            )


def _counts(program: Program, joined: bool) -> bool:
    """Whether it runs, or would be started in the place of the package's; what lies there otherwise gives way to the package."""
    return joined or program.active != "inactive" or program.unit_file.startswith(BEFORE_PACKAGES)


def _runs(name: str, program: Program) -> str:
    another = f", which is '{program.path}'" if program.path != program.command else ""
    version = f", version '{program.version}'" if program.version else ""
    return (
        f"unit '{name}.service' ('{program.unit_file}') is {program.active} and starts"
        f" '{program.command}'{another}{version}"
    )


def _leave_out() -> str:
    return "Leave the machine out with -l. 'pytest validation' checks a node that others set up."


def _step(joined: bool, role: str) -> str:
    if joined:
        return (
            f"Set '{role}_owner: existing' if somebody else installs it: site.yml then leaves it alone (docs/adopt.md)."
            f" Or leave the machine out with -l."
        )
    return "Leave the machine out with -l, or have whoever installed it take it away with its unit; then run again."
