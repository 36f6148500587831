"""Faults of simulated machines: putting them in and taking them away."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence

from gpusmith.errors import InputError, ToolError

# Runs a command inside a machine: exec_in(machine, argv).
ExecIn = Callable[[str, Sequence[str]], "subprocess.CompletedProcess[str]"]

SIMGPU = "/usr/lib/simgpu/simgpu"
FOLLOWER = "gpusmith-gpu-devices.service"
"""Unit of a node that was brought in, which makes at boot what depends on its devices."""
MAX_XID = 999

# What each fault is, for help texts. Kinds with True act on one GPU.
KINDS: dict[str, tuple[bool, str]] = {
    "driver-library-mismatch": (
        False,
        "another driver version is installed while the old module stays loaded",
    ),
    "driver-not-loaded": (False, "the kernel module is gone and cannot be loaded"),
    "gpu-lost": (True, "the GPU falls off the bus (Xid 79); a reboot cures it"),
    "gpu-missing": (True, "the GPU is no longer on PCI; NVML notices after a driver reload or reboot"),
    "xid": (True, "one Xid error with a given code"),
    "ecc-uncorrectable": (True, "an uncorrectable memory error (Xid 48 and 63) with a pending row remap"),
    "throttle": (True, "the GPU slows down because it is too hot"),
    "fabric-manager-down": (False, "the fabric manager fails to start; CUDA answers 802"),
    "containerd-config-clobbered": (
        False,
        "containerd's configuration is replaced by the package's stock file",
    ),
}


def inject(exec_in: ExecIn, machine: str, kind: str, gpu: int | None = None, xid: int | None = None) -> None:
    """Put one fault into a machine.

    Args:
        exec_in: how to run a command inside a machine.
        machine: its name.
        kind: key of KINDS.
        gpu: index in NVML's order, for kinds that act on one GPU (0 if not given).
        xid: the code, for kind ``xid`` only.

    Raises:
        InputError: a fault that does not exist or does not fit this machine.
        ToolError: the machine could not be reached.
    """
    if kind not in KINDS:
        raise InputError(f"Unknown fault '{kind}'.", f"Choose one of: {', '.join(KINDS)}.")
    if (kind == "xid") != (xid is not None):
        raise InputError(
            f"The fault '{kind}' {'needs an' if kind == 'xid' else 'has no'} Xid code.",
            "For example: xid 79.",
        )
    if xid is not None and not 1 <= xid <= MAX_XID:
        raise InputError(f"'{xid}' is no Xid.", f"Choose a code from 1 to {MAX_XID}, for example: xid 79.")
    if gpu is not None and not KINDS[kind][0]:
        raise InputError(f"The fault '{kind}' is one of the whole machine.", "Leave out '--gpu'.")
    words = [SIMGPU, "fault", kind]
    words += [str(xid)] if xid is not None else []
    words += ["--gpu", str(gpu)] if gpu is not None else []
    _run(exec_in, machine, words, f"put the fault '{kind}' into")


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


def follow_devices(exec_in: ExecIn, machine: str) -> None:
    """What a boot of the node does about its devices, after one came back: links and CDI specification.

    Raises:
        ToolError: the node's unit failed.
    """
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
