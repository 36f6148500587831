"""Faults of simulated machines: putting them in and taking them away."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable, Sequence

from simgpu.fault import Fault, registry

from gpusmith.errors import InputError, ToolError

# Runs a command inside a machine: exec_in(machine, argv).
ExecIn = Callable[[str, Sequence[str]], "subprocess.CompletedProcess[str]"]

SIMGPU = "/usr/lib/simgpu/simgpu"
FOLLOWER = "gpusmith-gpu-devices.service"
"""Unit of a node that was brought in, which makes at boot what depends on its devices."""


def inject(exec_in: ExecIn, machine: str, kind: str, gpu: int | None = None, xid: int | None = None) -> None:
    """Put one fault into a machine.

    Args:
        exec_in: how to run a command inside a machine.
        machine: its name.
        kind: name of a fault.
        gpu: index in NVML's order, for faults of one GPU (0 if not given).
        xid: the code, for faults that are given one.

    Raises:
        InputError: a fault that does not exist or does not fit this machine.
        ToolError: the machine could not be reached.
    """
    fault = registry().get(kind)
    if fault is None:
        raise InputError(f"Unknown fault '{kind}'.", f"Choose one of: {', '.join(registry())}.")
    _check_code(fault, xid)
    if gpu is not None and not fault.on_gpu:
        raise InputError(f"The fault '{kind}' is one of the whole machine.", "Leave out '--gpu'.")
    words = [SIMGPU, "fault", kind]
    words += [str(xid)] if xid is not None else []
    words += ["--gpu", str(gpu)] if gpu is not None else []
    _run(exec_in, machine, words, f"put the fault '{kind}' into")


def _check_code(fault: Fault, code: int | None) -> None:
    example = next(f"{each.name} {each.code.example}" for each in registry().values() if each.code)
    if (fault.code is None) != (code is None):
        raise InputError(
            f"The fault '{fault.name}' {'needs an' if fault.code else 'has no'} Xid code.",
            f"For example: {example}.",
        )
    if fault.code and code not in fault.code.allowed:
        first, last = fault.code.allowed[0], fault.code.allowed[-1]
        raise InputError(
            f"'{code}' is no Xid.", f"Choose a code from {first} to {last}, for example: {example}."
        )


def present(exec_in: ExecIn, machine: str) -> frozenset[str]:
    """The kinds of fault that a machine has.

    Raises:
        InputError: the machine has no simulated hardware.
        ToolError: the machine could not be reached.
    """
    done = _run(exec_in, machine, [SIMGPU, "status", "--json"], "look for faults in")
    return frozenset(str(row["kind"]) for row in json.loads(done.stdout)["faults"])


def heal(exec_in: ExecIn, machine: str) -> None:
    """Take all faults out of a machine; without any it changes nothing.

    Raises:
        InputError: the machine has no simulated hardware.
        ToolError: the machine could not be reached.
    """
    _run(exec_in, machine, [SIMGPU, "heal"], "heal")


def follow_devices(exec_in: ExecIn, machine: str, healed: Iterable[str]) -> None:
    """What a boot of the node does about its devices, after a fault was healed that took some: links and CDI specification.

    Args:
        exec_in: how to run a command inside a machine.
        machine: its name.
        healed: names of the faults.

    Raises:
        ToolError: the node's unit failed.
    """
    if not any(registry()[name].returns_devices for name in healed if name in registry()):
        return
    if exec_in(machine, ["systemctl", "is-enabled", "--quiet", FOLLOWER]).returncode == 0:
        _run(exec_in, machine, ["systemctl", "restart", FOLLOWER], f"restart '{FOLLOWER}' on")


def _run(exec_in: ExecIn, machine: str, words: Sequence[str], what: str) -> subprocess.CompletedProcess[str]:
    done = exec_in(machine, words)
    if done.returncode == 0:
        return done
    text = (done.stderr or done.stdout or "").strip()
    # Messages of the simulated kernel carry its name; anything else did not come from it.
    reason = next(
        (line.removeprefix("simgpu: ") for line in text.splitlines() if line.startswith("simgpu: ")), None
    )
    if reason is None:
        raise ToolError(
            f"Could not {what} machine '{machine}': {text or f'status {done.returncode}'}.",
            "See 'gpulab status'.",
        )
    raise InputError(f"Could not {what} machine '{machine}': {reason}.", "See 'gpulab status'.")
