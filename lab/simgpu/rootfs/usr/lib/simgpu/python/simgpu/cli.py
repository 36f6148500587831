"""The program simgpu.

simgpu boot                      before init: boot_id, /dev/kmsg, module lists, PCI and /proc trees
simgpu kthread                   keeps module reference counts in /sys and /proc current, and what GPUs do
simgpu coldplug                  loads drivers by the modalias of the PCI devices, as udev does at boot
simgpu load FILE [OPTION=V ...]  insert a simulated kernel module (what insmod does)
simgpu unload NAME [--force]     remove one (EBUSY if it is used)
simgpu fabric STATE              used by nv-fabricmanager: not-started | in-progress | completed
simgpu set PCI NAME NUMBER       used by NVML: limit_mw | persistence | compute_mode of a GPU, until the driver is unloaded
simgpu mig PCI mode 0|1          used by NVML, as is all of MIG
simgpu mig PCI reset             used by nvidia-smi
simgpu mig PCI create PROFILE [START], create-compute GI, destroy-compute GI, destroy GI
simgpu fault KIND [CODE] [--gpu N]   N is the index of NVML; see simgpu fault --help
simgpu heal                      take all faults away
simgpu status [--json]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from simgpu.errors import RefusedError
from simgpu.files import locked
from simgpu.state import FABRIC

LOCKLESS = ("boot", "kthread", "coldplug")


def parser(words: list[str]) -> argparse.ArgumentParser:
    """All commands; what only one of them needs is imported for that one."""
    top = argparse.ArgumentParser(prog="simgpu", description="Simulated GPU hardware of a gpusmith lab node.")
    commands = top.add_subparsers(dest="command", required=True)
    for name in (*LOCKLESS, "heal"):
        commands.add_parser(name)
    sub = commands.add_parser("load")
    sub.add_argument("file", type=Path)
    sub.add_argument("options", nargs="*")
    sub = commands.add_parser("unload")
    sub.add_argument("name")
    sub.add_argument("--force", action="store_true", help="whoever uses it")
    sub = commands.add_parser("fabric")
    sub.add_argument("state", choices=list(FABRIC)[1:])
    sub = commands.add_parser("set")
    sub.add_argument("pci")
    sub.add_argument("name", choices=["limit_mw", "persistence", "compute_mode"])
    sub.add_argument("number", type=int)
    sub = commands.add_parser("mig")
    sub.add_argument("pci")
    sub.add_argument(
        "action", choices=["mode", "reset", "create", "create-compute", "destroy-compute", "destroy"]
    )
    sub.add_argument("numbers", nargs="*", type=int)
    sub = commands.add_parser("fault", formatter_class=argparse.RawDescriptionHelpFormatter)
    if words[:1] == ["fault"]:
        _fault(sub)
    sub = commands.add_parser("status")
    sub.add_argument("--json", action="store_true")
    return top


def _fault(sub: argparse.ArgumentParser) -> None:
    from simgpu.fault import listing, registry

    sub.epilog = f"fault kinds:\n{listing()}"
    sub.add_argument("kind", choices=list(registry()))
    sub.add_argument("code", nargs="?", type=int)
    sub.add_argument("--gpu", type=int, default=None, help="index of NVML, 0 if left out")


def main(words: list[str]) -> int:
    """Run one command; returns 0, or the errno of the refusal."""
    options = parser(words).parse_args(words)
    # modprobe, called from within heal, comes back to this program: the caller holds the lock already.
    lockless = options.command in LOCKLESS or os.environ.get("SIMGPU_LOCKED")
    try:
        with contextlib.nullcontext() if lockless else locked():
            _run(options)
    except RefusedError as refusal:
        print(f"simgpu: {refusal}", file=sys.stderr)
        return refusal.code
    return 0


def _run(options: argparse.Namespace) -> None:
    match options.command:
        case "boot":
            from simgpu.boot import boot

            boot()
        case "kthread":
            from simgpu.kthread import kthread

            kthread()
        case "coldplug":
            from simgpu.boot import coldplug

            coldplug()
        case "load":
            from simgpu.driver import load

            pairs = (item.partition("=") for item in options.options)
            load(options.file, {key: value if equals else "1" for key, equals, value in pairs})
        case "unload":
            from simgpu.driver import unload
            from simgpu.modules import named

            unload(named(options.name), options.force)
        case "fabric":
            from simgpu.driver import fabric

            fabric(options.state)
        case "set":
            from simgpu.driver import change_setting

            change_setting(options.pci, options.name, options.number)
        case "mig":
            _mig(options.action, options.pci, options.numbers)
        case "fault":
            from simgpu.injection import inject

            inject(options.kind, options.code, options.gpu)
        case "heal":
            from simgpu.injection import heal

            heal()
        case "status":
            from simgpu.status import human, status

            content = status()
            print(json.dumps(content, indent=1) if options.json else human(content))


def _mig(action: str, address: str, numbers: list[int]) -> None:
    from simgpu import mig

    actions: dict[str, Callable[..., None]] = {
        "mode": mig.set_mode,
        "reset": mig.reset,
        "create": mig.create,
        "destroy": mig.destroy,
    }
    actions |= {"create-compute": mig.create_compute, "destroy-compute": mig.destroy_compute}
    actions[action](address, *numbers)
