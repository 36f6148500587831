"""The command `gpulab`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence

from simgpu.fault import listing

from gpulab.lab import Lab
from gpulab.machines import attach
from gpulab.progress import say
from gpulab.releases import TITLES, USUAL
from gpulab.releases import known as known_releases
from gpulab.simgpu import hardware
from gpulab.simgpu.packages import broken_drivers
from gpulab.state import DEFAULT_SUBNET, Shape, load, locked
from gpulab.systems import DEFAULT, known
from gpusmith.errors import GpusmithError, InputError

OK, NO_LAB, BAD_INPUT, BROKEN, INTERRUPTED = 0, 1, 2, 3, 130
STATUS = """\
exit status: 0 if a lab is up, 1 if not. A machine that is down shows in its 'state'.
"""


def sizes(text: str) -> tuple[int, ...]:
    """Numbers of GPUs, separated by commas."""
    return tuple(map(int, text.split(",")))


def operating_systems(text: str) -> tuple[str, ...]:
    """What '--os' says, in one order whoever wrote it."""
    entries = sorted(entry.strip() for entry in text.split(","))
    for entry in entries:
        if entry.rpartition("=")[2] not in known():
            raise argparse.ArgumentTypeError(
                f"'{entry}' names no operating system of the lab; there are {', '.join(known())}"
            )
    names = [entry.partition("=")[0] for entry in entries if "=" in entry]
    if len(set(names)) != len(names) or len(entries) - len(names) > 1:
        raise argparse.ArgumentTypeError(f"'{text}' names two operating systems for one machine")
    return tuple(entries)


def gpu_model(text: str) -> str:
    """A key of data/gpus.yml, or one with another PCI device ID."""
    try:
        hardware.row(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(f"{error.message} {error.hint}") from error
    return text


def parser() -> argparse.ArgumentParser:
    """All commands and their help."""
    top = argparse.ArgumentParser(
        prog="gpulab",
        description="A Kubernetes cluster of machines with simulated GPUs on this host.",
        epilog="exit status: 0 done, 1 no lab is up, 2 wrong input, 3 the lab or a tool is broken. "
        "Machines are named cp-1, gpu-1, gpu-2, ..., cpu-1, ...",
    )
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def add(name: str, text: str, more: str = "") -> argparse.ArgumentParser:
        return commands.add_parser(
            name,
            help=text,
            description=text,
            epilog=more,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    up = add(
        "up",
        "Build what is missing, start the machines and the control plane, write inventory/lab.",
        "On a running lab of that shape nothing changes; missing machines are added; a killed 'up' is repaired.",
    )
    up.add_argument("--gpu-nodes", type=int, metavar="N", help="machines with GPUs (default: 2)")
    up.add_argument(
        "--gpus",
        type=sizes,
        metavar="N[,N...]",
        help="GPUs of each of them (default: 4), or of gpu-1, gpu-2, ...; the last number is that of all further ones",
    )
    up.add_argument(
        "--os",
        type=operating_systems,
        metavar="NAME|MACHINE=NAME[,...]",
        help=f"operating system of the machines with GPUs, or of gpu-1, gpu-2, ... by name (default: {DEFAULT}); "
        f"there are {', '.join(known())}",
    )
    up.add_argument(
        "--model",
        type=gpu_model,
        metavar="KEY[@DEVICE]",
        help="GPU model, a key of data/gpus.yml (default: h100-sxm); with another PCI device ID it is no row",
    )
    up.add_argument(
        "--cpu-nodes", type=int, metavar="N", help="workers without GPUs, joined to the cluster (default: 0)"
    )
    for name, title in TITLES.items():
        up.add_argument(
            f"--{name}",
            choices=known_releases(name),
            help=f"minor release of {title}, of all machines (default: {getattr(USUAL, name)}); another one is compiled when it "
            "is first asked for",
        )
    up.add_argument("--subnet", metavar="CIDR", help=f"the lab's network, a /24 (default: {DEFAULT_SUBNET})")
    up.add_argument("--no-cluster", action="store_true", help="bare machines only, no control plane")
    add("down", "Remove the lab's machines, disks, network and inventory; the artifacts stay cached.")
    status = add("status", "Show the machines and whether their nodes are Ready.", STATUS)
    status.add_argument("--json", action="store_true", help="print JSON")
    ssh = add("ssh", "Open a shell on a machine, or run a command there: gpulab ssh gpu-1 -- nvidia-smi")
    ssh.add_argument("node", metavar="NODE")
    ssh.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    kubectl = add(
        "kubectl",
        "Run kubectl as the cluster's administrator, on cp-1: gpulab kubectl get nodes",
        "Files are read on cp-1; give local ones by standard input: gpulab kubectl apply -f - < FILE",
    )
    kubectl.add_argument("words", nargs=argparse.REMAINDER, metavar="ARGUMENTS")
    reboot = add("reboot", "Reboot one machine, or all at once, and wait until they have booted.")
    which = reboot.add_mutually_exclusive_group(required=True)
    which.add_argument("node", nargs="?", metavar="NODE")
    which.add_argument("--all", action="store_true", help="every machine but the depot, at the same time")
    for name, text in (
        ("reinstall", "Make a machine anew, as bare as on the first day; its Node leaves the cluster."),
        ("stop", "Power a machine off."),
        ("start", "Power a machine on again."),
    ):
        add(name, text).add_argument("node", metavar="NODE")
    depot = add(
        "depot",
        "Stop or start the depot: packages and images for all machines.",
        f"Drivers of the repository 'cuda-broken', which is served beside 'cuda':\n{broken_drivers()}",
    )
    depot.add_argument("action", choices=("stop", "start"))
    fault = add("fault", "Break a machine in one way.", f"fault kinds:\n{listing()}")
    fault.add_argument("node", metavar="NODE")
    fault.add_argument("kind", metavar="KIND")
    fault.add_argument("code", nargs="?", type=int, metavar="CODE", help="the number of an Xid")
    fault.add_argument("--gpu", type=int, metavar="N", help="index of the GPU, as nvidia-smi counts")
    add("heal", "Take all faults of a machine back.").add_argument("node", metavar="NODE")
    delay = add(
        "delay",
        "Make a machine slow, or show how slow it is.",
        "What is left out stays as it is; a machine that is made anew is a fast one.\n"
        "Each counts from the next boot, load of the module or start of the fabric manager. The roles'\n"
        "deadlines are those of large machines, the ones in inventory/lab are shorter.",
    )
    delay.add_argument("node", metavar="NODE")
    for name, text in (
        ("--boot", "before the operating system starts"),
        ("--module-load", "before the driver's module is there"),
        ("--fabric", "from the start of the fabric manager to a working NVSwitch fabric"),
    ):
        delay.add_argument(name, type=float, metavar="SECONDS", help=text)
    logs = add("logs", "List the lab's log files, or show a machine's journal.")
    logs.add_argument("node", nargs="?", metavar="NODE")
    logs.add_argument("unit", nargs="?", metavar="UNIT", help="only this systemd unit")
    logs.add_argument("--lines", type=int, default=100, metavar="N", help="journal lines (default: 100)")
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; errors become one sentence on standard error."""
    words = list(sys.argv[1:] if argv is None else argv)
    # Podman 5 says with every command that it will drop cgroup v1; who sits at this host's keyboard cannot change that here.
    os.environ.setdefault("PODMAN_IGNORE_CGROUPSV1_WARNING", "true")
    # argparse's REMAINDER does not begin with an option, and kubectl's arguments often do.
    if words[:1] == ["kubectl"] and words[1:2] not in (["-h"], ["--help"], []):
        options = argparse.Namespace(command="kubectl", words=words[1:])
    else:
        options = parser().parse_args(words)
    try:
        return COMMANDS[options.command](Lab.default(), options)
    except GpusmithError as error:
        say(f"gpulab: {error.message}")
        if error.hint:
            say(f"  {error.hint}")
        return BAD_INPUT if isinstance(error, InputError) else BROKEN
    except KeyboardInterrupt:
        say("gpulab: interrupted; the same command continues, 'gpulab down' removes what is there.")
        return INTERRUPTED


def shape_of(options: argparse.Namespace, running: Shape | None) -> Shape:
    """The wanted shape: what was not said stays as it is."""
    base = running or Shape()

    def pick(name: str) -> object:
        given = getattr(options, name)
        return getattr(base, name) if given is None else given

    names = ("gpu_nodes", "gpus", "model", "cpu_nodes", "subnet", "os", *TITLES)
    fields = {name: pick(name) for name in names}
    cluster = not options.no_cluster if (running is None or options.no_cluster) else True
    return Shape(**fields, cluster=cluster)  # type: ignore[arg-type]


def _up(lab: Lab, options: argparse.Namespace) -> int:
    with locked(lab.places, "up"):
        state = load(lab.places)
        lab.up(shape_of(options, state.shape if state else None))
    return OK


def _down(lab: Lab, _: argparse.Namespace) -> int:
    with locked(lab.places, "down"):
        lab.down()
    return OK


def _status(lab: Lab, options: argparse.Namespace) -> int:
    found = lab.status()
    if options.json:
        print(json.dumps(found or {"nodes": []}, indent=2))
    elif found is None:
        say("No lab is up. Run 'gpulab up'.")
    else:
        rows = [("NAME", "ROLE", "STATE", "ADDRESS", "KUBERNETES", "GPUS")]
        for node in found["nodes"]:
            gpus = f"{node['gpus']} x {node['model']}" if "gpus" in node else "-"
            rows.append(
                (
                    node["name"],
                    node["role"],
                    node["state"],
                    node["address"],
                    node["kubernetes"] or ("not a node" if found["api"] else "not known"),
                    gpus,
                )
            )
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        for row in rows:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        for node in found["nodes"]:
            if node.get("user_land"):
                print(f"{node['name']}: {node['user_land']}")
        if not found["api"]:
            say("The cluster's API does not answer, so the state of its nodes is not known.")
        if not found["complete"]:
            say("The last 'gpulab up' did not reach its end; run it again.")
    if found is None:
        return NO_LAB
    if any(node["state"] == "running" for node in found["nodes"]):
        return OK
    say("None of the lab's machines runs; 'gpulab up' starts them, 'gpulab down' removes them.")
    return NO_LAB


def _ssh(lab: Lab, options: argparse.Namespace) -> int:
    command = options.words[1:] if options.words[:1] == ["--"] else options.words
    machine = lab.machine(options.node)
    return attach(
        [*lab.machinery.ssh_command(machine, terminal=not command and sys.stdin.isatty()), *command]
    )


def _kubectl(lab: Lab, options: argparse.Namespace) -> int:
    machine = lab.machine("cp-1")
    terminal = ["-t"] if sys.stdin.isatty() and sys.stdout.isatty() else []
    words = ["exec", "-i", *terminal, machine.container, "kubectl", "--kubeconfig=/etc/kubernetes/admin.conf"]
    return attach([*lab.machinery.podman.command(*words), *options.words])


def _reboot(lab: Lab, options: argparse.Namespace) -> int:
    with locked(lab.places, "reboot"):
        lab.reboot(None if options.all else options.node)
    return OK


def _reinstall(lab: Lab, options: argparse.Namespace) -> int:
    with locked(lab.places, "reinstall"):
        lab.reinstall(options.node)
    return OK


def _stop(lab: Lab, options: argparse.Namespace) -> int:
    with locked(lab.places, "stop"):
        lab.stop(options.node)
    return OK


def _start(lab: Lab, options: argparse.Namespace) -> int:
    with locked(lab.places, "start"):
        lab.start(options.node)
    return OK


def _depot(lab: Lab, options: argparse.Namespace) -> int:
    with locked(lab.places, f"depot {options.action}"):
        lab.depot(options.action)
    return OK


def _fault(lab: Lab, options: argparse.Namespace) -> int:
    with locked(lab.places, "fault"):
        lab.fault(options.node, options.kind, options.gpu, options.code)
    return OK


def _heal(lab: Lab, options: argparse.Namespace) -> int:
    with locked(lab.places, "heal"):
        lab.heal(options.node)
    return OK


def _delay(lab: Lab, options: argparse.Namespace) -> int:
    with locked(lab.places, "delay"):
        wanted = {name: getattr(options, name) for name in ("boot", "module_load", "fabric")}
        print(f"{options.node}: {lab.delay(options.node, wanted)}")
    return OK


def _logs(lab: Lab, options: argparse.Namespace) -> int:
    if options.node is None:
        for path in sorted(lab.places.logs.glob("*.log")):
            print(f"{path.stat().st_size:>10}  {path}")
        return OK
    words = [
        "journalctl",
        "--no-pager",
        f"--lines={options.lines}",
        *([f"--unit={options.unit}"] if options.unit else []),
    ]
    return attach(lab.machinery.podman.command("exec", lab.machine(options.node).container, *words))


COMMANDS: dict[str, Callable[[Lab, argparse.Namespace], int]] = {
    "up": _up,
    "down": _down,
    "status": _status,
    "ssh": _ssh,
    "kubectl": _kubectl,
    "reboot": _reboot,
    "reinstall": _reinstall,
    "stop": _stop,
    "start": _start,
    "depot": _depot,
    "fault": _fault,
    "heal": _heal,
    "delay": _delay,
    "logs": _logs,
}
