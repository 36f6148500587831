"""What the lab remembers between two commands, and the lock that keeps two of them apart."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from gpulab.podman import KILLED, MISSING
from gpulab.processes import process_start
from gpulab.releases import USUAL, Releases
from gpulab.systems import DEFAULT
from gpusmith.errors import InputError, ToolError
from gpusmith.paths import repo_root, state_dir

DEFAULT_SUBNET = "10.77.0.0/24"
SCHEMA = 1


@dataclass(frozen=True)
class Shape:
    """What was asked for; two labs of the same shape are interchangeable.

    Attributes:
        gpu_nodes: machines with simulated GPUs.
        gpus: GPUs of gpu-1, gpu-2, ...; the last number is that of all further ones.
        model: key of data/gpus.yml, or 'KEY@DEVICE'.
        cpu_nodes: workers without GPUs, members of the existing cluster.
        subnet: the lab network, a /24.
        cluster: whether cp-1 carries a Kubernetes control plane.
        os: operating systems of the machines with GPUs, as the option says them: 'NAME' for all, or 'MACHINE=NAME'.
        kubernetes: minor release of Kubernetes.
        containerd: minor release of containerd.
    """

    gpu_nodes: int = 2
    gpus: tuple[int, ...] = (4,)
    model: str = "h100-sxm"
    cpu_nodes: int = 0
    subnet: str = DEFAULT_SUBNET
    cluster: bool = True
    os: tuple[str, ...] = ()
    kubernetes: str = USUAL.kubernetes
    containerd: str = USUAL.containerd

    def __str__(self) -> str:
        parts = [
            f"{self.gpu_nodes} GPU machines with {self.sizes} x {self.model}",
            *([f"operating systems {','.join(self.os)}"] if self.os else []),
            f"{self.cpu_nodes} CPU machines",
            *map(str, self.releases.others),
        ]
        return ", ".join([*parts, self.subnet, "with a cluster" if self.cluster else "without a cluster"])

    @property
    def releases(self) -> Releases:
        """Those of components that a lab has a choice of."""
        return Releases(self.kubernetes, self.containerd)

    @property
    def sizes(self) -> str:
        """The numbers of GPUs, as the option says them."""
        return ",".join(map(str, self.gpus))

    @property
    def named_systems(self) -> dict[str, str]:
        """Operating system by machine, of those that were named."""
        return dict(entry.split("=", 1) for entry in self.os if "=" in entry)

    def system(self, machine: str) -> str:
        """The operating system of a machine with GPUs."""
        for_all = next((entry for entry in self.os if "=" not in entry), DEFAULT)
        return self.named_systems.get(machine, for_all)


@dataclass(frozen=True)
class State:
    """Content of state.json.

    Attributes:
        shape: the lab that is up, or that an `up` was building when it was killed.
        complete: the last `up` reached its end.
        cluster_ready: the control plane was once complete.
        busy: machines that the cluster playbook works on; a kill then leaves them half done, with programs of the
            playbook perhaps still running there, so that they are made anew rather than repaired.
    """

    shape: Shape
    complete: bool = False
    cluster_ready: bool = False
    busy: tuple[str, ...] = ()


@dataclass(frozen=True)
class Places:
    """Where the lab keeps its files.

    Attributes:
        root: run state; removed by `down`, except for the logs.
        inventory: the Ansible inventory written for users, in the checkout.
        repo: the checkout.
    """

    root: Path
    inventory: Path
    repo: Path

    @classmethod
    def default(cls) -> Places:
        """The places of this user and this checkout."""
        repo = repo_root()
        return cls(root=state_dir() / "lab", inventory=repo / "inventory" / "lab", repo=repo)

    @property
    def state_file(self) -> Path:
        """Shape and progress of the lab."""
        return self.root / "state.json"

    @property
    def logs(self) -> Path:
        """Log files; they outlive the lab, so that a failure can be read after `down`."""
        return self.root / "logs"

    @property
    def keys(self) -> Path:
        """The client's key pair."""
        return self.root / "keys"

    def machine(self, name: str) -> Path:
        """Everything that belongs to one machine."""
        return self.root / "machines" / name

    @property
    def shared(self) -> Path:
        """What all nodes have in one place, as where a site mounts NFS."""
        return self.root / "shared"

    def hardware(self, name: str) -> Path:
        """What a machine's simulated kernel reads and writes: hardware.json, delays.json, faults.json."""
        return self.machine(name) / "simgpu"


def load(places: Places) -> State | None:
    """Read the state; None when no lab was begun.

    Raises:
        ToolError: the file cannot be read as state of this version.
    """
    try:
        raw = json.loads(places.state_file.read_text())
        if raw["schema"] != SCHEMA:
            raise ValueError(f"schema {raw['schema']}")
        sizes = raw["shape"]["gpus"]
        # Older releases had one number for all.
        gpus = (sizes,) if isinstance(sizes, int) else tuple(sizes)
        return State(
            shape=Shape(**{**raw["shape"], "gpus": gpus, "os": tuple(raw["shape"].get("os", ()))}),
            complete=bool(raw["complete"]),
            cluster_ready=bool(raw["cluster_ready"]),
            busy=tuple(raw["busy"]),
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise ToolError(
            f"The lab's state file '{places.state_file}' cannot be used ({error}).",
            "Run 'gpulab down', then 'gpulab up'.",
        ) from error


def save(places: Places, state: State) -> None:
    """Write the state so that a kill at any point leaves the old or the new one."""
    write_atomically(places.state_file, json.dumps({"schema": SCHEMA, **asdict(state)}, indent=2) + "\n")


def write_atomically(path: Path, text: str, mode: int = 0o644) -> None:
    """Replace a file in one step, with the mode set before its content is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    scratch.touch(mode=mode)
    scratch.chmod(mode)
    scratch.write_text(text)
    scratch.replace(path)


def beyond_repair(state: State, words: Mapping[str, str]) -> frozenset[str]:
    """Which machines have to be made anew before the lab can be what its state says.

    Args:
        state: what was reached.
        words: state of every machine of the lab by name, the control plane's first; as `Machinery.state` gives it.

    Returns:
        Names of machines that are missing, were killed, or were left half done by a kill. All machines, if the
        control plane of a complete cluster is among them: the others are members of a cluster that is gone.
    """
    lost = frozenset(name for name, word in words.items() if word in (MISSING, KILLED) or name in state.busy)
    return frozenset(words) if state.cluster_ready and next(iter(words)) in lost else lost


def reshape(running: State | None, wanted: Shape) -> State:
    """The state to build towards, given what is there.

    A running lab can grow; everything else would take machines away from whoever uses them, so it is refused.

    Raises:
        InputError: the wanted shape shrinks or changes the running lab.
    """
    if running is None:
        return State(shape=wanted)
    have = running.shape
    fixed = [
        ("--model", have.model, wanted.model),
        ("--gpus", have.sizes, wanted.sizes),
        ("--subnet", have.subnet, wanted.subnet),
        ("--kubernetes", have.kubernetes, wanted.kubernetes),
        ("--containerd", have.containerd, wanted.containerd),
    ]
    for option, old, new in fixed:
        if old != new:
            raise InputError(
                f"The lab is up with {option} '{old}', which cannot become '{new}' while it runs.",
                f"Run 'gpulab down' first, or leave out '{option}'.",
            )
    for number in range(1, have.gpu_nodes + 1):
        name = f"gpu-{number}"
        if have.system(name) != wanted.system(name):
            raise InputError(
                f"'{name}' is up with '{have.system(name)}', which cannot become '{wanted.system(name)}' while it runs.",
                "Run 'gpulab down' first, or leave out '--os'.",
            )
    counts = [
        ("--gpu-nodes", have.gpu_nodes, wanted.gpu_nodes),
        ("--cpu-nodes", have.cpu_nodes, wanted.cpu_nodes),
    ]
    for option, old_count, new_count in counts:
        if new_count < old_count:
            raise InputError(
                f"The lab is up with {option} '{old_count}'; 'up' never takes machines away, so '{new_count}' is refused.",
                "Run 'gpulab down' first.",
            )
    if have.cluster and not wanted.cluster:
        raise InputError(
            "The lab is up with a cluster; '--no-cluster' cannot take it away.", "Run 'gpulab down' first."
        )
    if have == wanted:
        return running
    return replace(running, shape=wanted, complete=False)


@contextmanager
def locked(places: Places, verb: str) -> Iterator[None]:
    """Hold the lab's lock; the kernel drops it when this process dies, however it dies.

    Raises:
        ToolError: another command holds it; says which.
    """
    places.root.mkdir(parents=True, exist_ok=True)
    path = places.root / "lock"
    with path.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            raise ToolError(
                f"Another command works on this lab: '{holder}'.", "Wait until it ended, then try again."
            ) from error
        lock.truncate(0)
        lock.write(f"gpulab {verb}, process {os.getpid()}")
        lock.flush()
        yield


def remember_child(places: Places, pid: int) -> None:
    """Note a process group that must not outlive a killed command."""
    write_atomically(places.root / "child.json", json.dumps({"pid": pid, "start": process_start(pid)}))


def forget_child(places: Places) -> None:
    """The process group ended."""
    (places.root / "child.json").unlink(missing_ok=True)


def end_orphan(places: Places, patience_s: float = 5.0) -> bool:
    """End the process group that a killed command left behind.

    Returns:
        Whether there was one.
    """
    try:
        noted = json.loads((places.root / "child.json").read_text())
    except (FileNotFoundError, ValueError):
        return False
    pid, start = int(noted["pid"]), str(noted["start"])
    found = bool(start) and process_start(pid) == start
    if found:
        end = time.monotonic() + patience_s
        os.killpg(pid, signal.SIGTERM)
        while process_start(pid) == start and time.monotonic() < end:
            time.sleep(0.1)
        if process_start(pid) == start:
            os.killpg(pid, signal.SIGKILL)
    forget_child(places)
    return found
