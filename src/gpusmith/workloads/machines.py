"""The machines of nodes, asked by privileged pods where there is no ssh: one on each node, with the machine's own Python."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from gpusmith.cluster.api import DRY, FORBIDDEN, MISSING, ApiRefused, Cluster
from gpusmith.cluster.hints import OF_RIGHTS
from gpusmith.errors import GpusmithError, ToolError
from gpusmith.node.connections import Node, Result, Unreachable
from gpusmith.workloads import jobs, namespace
from gpusmith.workloads.board import Board
from gpusmith.workloads.jobs import PodTask, Run
from gpusmith.workloads.judge import last_words, result_of
from gpusmith.workloads.keepalive import KeepAlive
from gpusmith.workloads.node import NodeUnderTest, Say
from gpusmith.workloads.pods import Pods
from gpusmith.workloads.targets import Target

PROGRAM = "probe.zip"
"""What runs on the machine, beside our programs."""
IMAGE = "cuda"
"""Of the images, the one of which only Python is asked."""
SLACK_S = 30.0
"""What starting may take beside the program on the machine, which has a deadline there."""
# An image may ask for all GPUs by itself: the runtime would then keep the pod from starting where the driver is broken.
NO_GPUS = {"NVIDIA_VISIBLE_DEVICES": "void"}


@dataclass(frozen=True)
class MachineByPod:
    """A node whose machine is asked by a pod."""

    pods: Pods

    @property
    def name(self) -> str:
        """Its name in this run."""
        return self.pods.node.host.name

    def task(self, argv: Sequence[str], timeout_s: float) -> PodTask:
        """What its pod does."""
        command = json.dumps({"words": list(argv), "timeout_s": timeout_s})
        return self.pods.task(
            "machine",
            jobs.program("ask_machine.py"),
            env={"GPUSMITH_COMMAND": command, **NO_GPUS},
            machine=True,
            runtime_class="",
            timeout_s=timeout_s + SLACK_S,
        )

    def run(self, argv: Sequence[str], _stdin: bytes = b"", timeout_s: float = 60.0) -> Result:
        """See Node.run; standard input is what lies beside the programs of the run."""
        view = self.pods.node.target.view
        if view is None or not view.ready:
            why = "is not Ready" if view else "is not in the cluster"
            raise Unreachable(
                f"Node '{self.name}' {why}, so that no pod can look at its machine.",
                "See cluster.node-ready.",
            )
        try:
            log = self.pods.run_pod(self.task(argv, timeout_s))
        except GpusmithError as error:
            message = error.message.rstrip(".")
            raise Unreachable(
                f"No pod can look at the machine of node '{self.name}': {message}.", error.hint
            ) from error
        found = result_of(log)
        if found is None or not found["ok"]:
            said = found["error"] if found else last_words(log) or "nothing"
            raise Unreachable(f"The pod that looks at the machine of node '{self.name}' failed: {said}")
        out = zlib.decompress(base64.b64decode(found["packed"])).decode(errors="replace")
        return Result(found["status"], out, found["stderr"])


@contextmanager
def reached(
    cluster: Cluster, run: Run, programs: Path, targets: Sequence[Target], say: Say, program: bytes
) -> Iterator[tuple[Mapping[str, Node], Callable[[], None]]]:
    """The machines, and what ends all waits for them; what was made for them is removed in the end.

    Args:
        cluster: the API.
        run: in a namespace that stays.
        programs: folder of what runs inside pods.
        targets: their nodes.
        say: told what is going on.
        program: what runs on them.

    Raises:
        ToolError: no pod can look at any.
    """
    # What the pods print is kept as what nodes answered.
    run = replace(run, keep=lambda _name, _log: None)
    with Board(cluster, run.namespace, run.id) as board:
        nodes = {
            target.host.name: MachineByPod(
                Pods(
                    NodeUnderTest(
                        cluster, run, board, target, f"{run.prefix}m{place}", say, lambda row: row.view
                    ),
                    IMAGE,
                    0,
                )
            )
            for place, target in enumerate(targets)
        }
        _try_out(cluster, run, list(nodes.values()))
        try:
            namespace.make(cluster, run, programs, {PROGRAM: program})
            with KeepAlive(cluster, run):
                yield nodes, board.stop
        finally:
            left = namespace.clear(cluster, run)
            if left:
                say(f"what this run made in namespace '{run.namespace}' is still there: {left}")


def _try_out(cluster: Cluster, run: Run, nodes: Sequence[MachineByPod]) -> None:
    """Have the API server judge such a pod before one is made: a refusal is that of all of them.

    Raises:
        ToolError: it is refused.
    """
    there = next((node for node in nodes if node.pods.node.target.view), None)
    if there is None:
        return
    manifest = jobs.pod(run, there.task(["python3"], 1.0))
    try:
        cluster.create(f"/api/v1/namespaces/{run.namespace}/pods", manifest, DRY)
    except ApiRefused as error:
        if error.status == MISSING:
            raise namespace.missing(run) from error
        if error.status != FORBIDDEN:
            raise
        raise ToolError(
            f"No pod may look at the machines of nodes from namespace '{run.within}': {error.message}",
            _allow(error.message, run.within),
        ) from error


def _allow(said: str, within: str) -> str:
    """What has such a pod admitted, by who refused it."""
    if "PodSecurity" in said:
        return (
            f"Have an administrator allow privileged pods there: kubectl label namespace {within}"
            " pod-security.kubernetes.io/enforce=privileged; or leave out '--facts'."
        )
    if "security context constraint" in said:
        return (
            f"Have an administrator allow privileged pods there: oc adm policy add-scc-to-user privileged -z default -n {within};"
            " or leave out '--facts'."
        )
    if OF_RIGHTS.search(said):
        return f"Give the user the rights of docs/rbac-any-cluster.yml: kubectl -n {within} apply -f docs/rbac-any-cluster.yml"
    return "Have the owner of the policy that refuses it make an exception, or leave out '--facts'."
