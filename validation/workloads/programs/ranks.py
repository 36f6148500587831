"""A job over GPUs of one pod or of several: who belongs to it, that its pods reach each other, and its processes.

Standard library only, Python 3.9 or newer. Without variable GPUSMITH_MEMBERS the group is this pod alone.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import socket
import socketserver
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Callable

from gpu_driver import ProgramError

REACH_PORT, STORE_PORT = 29499, 29500
REACH_S = 90.0
"""How long another pod may take until it answers: all of them are scheduled, and their images are there."""
FORM_S = 45.0
WORK_S = 180.0
"""How long everything after that may take: a collective waits for ever for a rank that died."""
DIED, LATE = "ended without a word", "did not end in time"
GRACE_S = 5.0
"""How long other ranks may take to say what they know, after one has failed."""


@dataclass(frozen=True)
class Group:
    """The pods of a job.

    Attributes:
        place: of this pod among them.
        members: host names of the pods.
        nodes: names of their nodes.
        gpus: of each pod.
    """

    place: int
    members: tuple[str, ...]
    nodes: tuple[str, ...]
    gpus: int

    @property
    def world(self) -> int:
        """Number of ranks: one per GPU."""
        return self.gpus * len(self.members)

    @property
    def node(self) -> str:
        """Name of this pod's node."""
        return self.nodes[self.place]

    def rank(self, ordinal: int) -> int:
        """Of a GPU of this pod."""
        return self.place * self.gpus + ordinal


def group(environment: dict[str, str] | None = None) -> Group:
    """The group that the pod's environment names."""
    env = dict(os.environ) if environment is None else environment
    gpus = int(env["GPUSMITH_GPUS"])
    members = tuple(filter(None, env.get("GPUSMITH_MEMBERS", "").split(",")))
    nodes = tuple(env.get("GPUSMITH_NODES", "this node").split(","))
    return Group(int(env.get("GPUSMITH_PLACE", "0")), members or ("127.0.0.1",), nodes, gpus)


# --- pods reach each other -------------------------------------------------------------------------------------


class _Answers(socketserver.ThreadingTCPServer):
    """Says to who connects which member this is, to the end of the program."""

    allow_reuse_address, daemon_threads = True, True
    # Clusters have IPv4, IPv6 or both.
    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


def meet(found: Group, patience_s: float = REACH_S, port: int = REACH_PORT) -> dict[str, float]:
    """Wait until this pod reaches each of the others by name; seconds that a connection took, by node.

    A framework would only say that its group did not form. This names the two nodes.

    Raises:
        ProgramError: a pod is not reached.
    """
    if len(found.members) == 1:
        return {}

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(f"{found.place}\n".encode())

    threading.Thread(target=_Answers(("", port), Handler).serve_forever, daemon=True).start()
    deadline = time.monotonic() + patience_s
    return {
        found.nodes[place]: _reach(found, place, port, deadline, patience_s)
        for place in range(len(found.members))
        if place != found.place
    }


def _reach(found: Group, place: int, port: int, deadline: float, patience_s: float) -> float:
    name, last = found.members[place], "no answer"
    while time.monotonic() < deadline:
        begin = time.monotonic()
        try:
            with socket.create_connection((name, port), timeout=3) as connection:
                said = connection.makefile().readline().strip()
            if said == str(place):
                return round(time.monotonic() - begin, 4)
            last = f"'{said}' answers there"
        except OSError as error:
            last = str(error)
        time.sleep(0.3)
    raise ProgramError(
        f"the pod on node '{found.node}' does not reach the pod on node '{found.nodes[place]}'"
        f" ({name}, port {port}) within {patience_s:.0f} s: {last}",
        unreached=found.nodes[place],
    )


# --- processes -------------------------------------------------------------------------------------------------


def in_processes(
    found: Group,
    shares: Sequence[Sequence[int]],
    work: Callable[[Sequence[int]], dict[str, Any]],
    limit_s: float = WORK_S,
) -> list[dict[str, Any]]:
    """What each process gives, in their order: frameworks wait for lost ranks in code that only a kill interrupts.

    Processes are forked, so that what this one imported is not imported again. It must not have used CUDA.

    Args:
        found: the group.
        shares: ordinals of the pod's GPUs, of each process.
        work: gets those of its process.
        limit_s: how long all may take together.

    Raises:
        ProgramError: one fails, or does not end; the first that failed is named first.
    """
    context = multiprocessing.get_context("fork")
    there: dict[Any, int] = {}
    processes = []
    for place, share in enumerate(shares):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_one, args=(theirs, work, share), daemon=True)
        process.start()
        theirs.close()
        there[ours] = place
        processes.append(process)
    names = [_name(found, share) for share in shares]
    results: dict[int, dict[str, Any]] = {}
    errors: dict[str, list[str]] = {}
    deadline = time.monotonic() + limit_s
    try:
        while there:
            ready = wait(list(there), timeout=max(0.0, deadline - time.monotonic()))
            if not ready:
                errors.setdefault(LATE, []).extend(names[place] for place in there.values())
                break
            for connection in ready:
                place = there.pop(connection)
                error, result = _said(connection, processes[place])
                if error:
                    errors.setdefault(error, []).append(names[place])
                    deadline = min(deadline, time.monotonic() + GRACE_S)
                else:
                    results[place] = result
    finally:
        for process in processes:
            process.kill()
    if errors:
        said = (f"{', '.join(who)} of node '{found.node}' {error}" for error, who in errors.items())
        raise ProgramError("; ".join(said), died=any(error.startswith(DIED) for error in errors))
    return [results[place] for place in range(len(shares))]


def _name(found: Group, share: Sequence[int]) -> str:
    return f"rank {found.rank(share[0])}" if len(share) == 1 else "the process"


def _said(connection: Any, process: Any) -> tuple[str, dict[str, Any]]:
    try:
        error, result = connection.recv()
    except EOFError:
        process.join(GRACE_S)
        return f"{DIED}, with {_status(process.exitcode)}", {}
    return error, result


def _status(code: int | None) -> str:
    if code is not None and code < 0:
        return f"signal {signal.Signals(-code).name}"
    return f"exit status {code}"


def _one(connection: Any, work: Callable[[Sequence[int]], dict[str, Any]], share: Sequence[int]) -> None:
    try:
        connection.send(("", work(share)))
    except ProgramError as error:
        connection.send((f"failed: {error}", {}))
    except Exception as error:  # noqa: BLE001 - the reason must reach the result, whatever it is
        # Frameworks write pages.
        words = " ".join(str(error).split())
        connection.send((f"failed: {type(error).__name__}: {words[:300]}", {}))


# --- NCCL's own words ------------------------------------------------------------------------------------------

NCCL_LOG = "/tmp/gpusmith-nccl"  # noqa: S108 - of the container
_VIA = re.compile(r"\bvia ((?:P2P|SHM|NET|COLLNET)(?:/[A-Za-z]+)?)")


def nccl_environment() -> dict[str, str]:
    """Variables that make NCCL write which way its data takes, and use /dev/shm.

    Without the last one, NCCL 2.24 to 2.26.4 need calls for NUMA that restricted pods may not make.
    """
    return {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,GRAPH,NET",
        "NCCL_DEBUG_FILE": f"{NCCL_LOG}.%p",
        "NCCL_CUMEM_HOST_ENABLE": "0",
    }


def transports(folder: Path | None = None) -> list[str]:
    """Ways that NCCL said its channels take: P2P, SHM, NVLS, NET/IB, NET/Socket."""
    folder, found = folder or Path(NCCL_LOG).parent, set()
    for path in folder.glob(f"{Path(NCCL_LOG).name}.*"):
        text = path.read_text(errors="replace")
        found |= set(_VIA.findall(text))
        if "NVLS" in text and "Connected NVLS tree" in text:
            found.add("NVLS")
    return sorted(found)


def tf_config(found: Group) -> str:
    """The group as TensorFlow wants it in TF_CONFIG."""
    workers = [f"{name}:{STORE_PORT}" for name in found.members]
    return json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": found.place}})
