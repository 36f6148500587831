"""Parameters of the driver's module: what the inventory sets is what the loaded module runs with."""

from __future__ import annotations

from collections.abc import Mapping

from gpusmith.expect import steps
from gpusmith.expect.wanted import Driver
from gpusmith.probe.record import Record
from gpusmith.problems import Cure, Problem

PREFIX = "NVreg_"
SHOWN_AS = {"RestrictProfilingToAdminUsers": "RmProfilingAdminOnly"}
"""The one parameter that /proc/driver/nvidia/params shows by another name (NVIDIA/open-gpu-kernel-modules,
kernel-open/nvidia/nv-reg.h, read 2026-11-22)."""
WORD = 0xFFFFFFFF


def _same(shown: str, wanted: str) -> bool:
    """Whether the kernel shows a value that was written otherwise: as hexadecimal, octal, negative, or without quotes."""
    first, second = _number(shown), _number(wanted)
    if first is not None and second is not None:
        return first == second
    return shown.strip().strip('"') == wanted.strip().strip('"')


def _number(text: str) -> int | None:
    """As the kernel reads numbers of 32 bits: one that begins with 0 is octal."""
    text = text.strip()
    octal = text.isdigit() and text.startswith("0")
    try:
        return int(text, 8 if octal else 0) & WORD
    except ValueError:
        return None


def differing(record: Record, wanted: Mapping[str, str]) -> dict[str, str | None]:
    """By name, what the loaded module shows instead; None if it shows no such parameter. Nothing if it cannot be asked."""
    shown = record.module.parameters
    if record.module.loaded_version is None or shown is None:
        return {}
    found = {}
    for name, value in wanted.items():
        plain = name.removeprefix(PREFIX)
        there = shown.get(SHOWN_AS.get(plain, plain), shown.get(plain))
        if there is None or not _same(there, value):
            found[name] = there
    return found


def problems(record: Record, wanted: Driver) -> list[Problem]:
    """Each parameter with which the module was not loaded."""
    node, serves = wanted.node, record.kubernetes.joined
    step = (
        f"It takes them when it is loaded: drain and reboot '{node}', or {steps.upgrade_driver(node, 'VERSION')}."
        if serves
        else f"Reload the module or reboot '{node}'."
    )
    return [
        Problem(
            f"Node '{node}': parameter '{name}' of the loaded module is "
            + (f"'{shown}'" if shown is not None else "not one that it shows")
            + f", the inventory wants '{wanted.module_parameters[name]}' ('nvidia_driver_module_parameters').",
            step
            if shown is not None
            else f"{step} If it stays so, the driver has no such parameter: see 'modinfo -p nvidia'.",
            {"parameter": name, "shown": shown, "wanted": wanted.module_parameters[name]},
            Cure.REBOOT,
        )
        for name, shown in differing(record, wanted.module_parameters).items()
    ]
