"""What the tests of upgrades share: runs in the background, ledgers, and the invariants, looked at all the time."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from gpulab.processes import process_start
from kubernetes import client, config

from gpusmith.change import ledger
from gpusmith.names import GPU_RESOURCE, STAMP, STARTUP_TAINT
from gpusmith.wait import Deadline, Done, GiveUp, NotYet, wait_until
from tests.e2e.harness import COLOURS, Ended, Lab

UPGRADE_PLAYBOOK, ROLLBACK_PLAYBOOK = "playbooks/upgrade_driver.yml", "playbooks/rollback_driver.yml"
OLD, NEW, NEXT_BRANCH = "580.178.04", "580.190.02", "595.91.07"
"""What the lab's inventory asks for, a newer one of its branch, and one of the next."""
OLDER = "580.95.05"
BROKEN = {"package": "580.200.01", "module": "580.200.02", "cuda": "580.200.03", "uuids": "580.200.04"}
"""What is broken -> version, in the repository cuda-broken (docs/lab.md)."""
RUN_TIMEOUT_S = 1200.0
SHORT = ("-e", "gpu_upgrade_soak_s=5", "-e", "gpu_upgrade_yes=true")
TICK_S = 0.5
TRIES, BETWEEN_TRIES_S = 4, 0.5

Node = Mapping[str, Any]


def offering_broken_drivers(lab: Lab, folder: Path) -> Path:
    """The lab's inventory, with the repository of broken drivers beside that of good ones."""
    inventory = lab.copy_inventory(folder)
    groups = inventory / "group_vars"
    for path in (groups / "all.yml", *groups.glob("os_*.yml")):
        values = yaml.safe_load(path.read_text())
        source = values["nvidia_driver_repository"]
        broken = [uri.replace("/cuda/", "/cuda-broken/") for uri in source["uris"]]
        # To dnf, several addresses are mirrors of each other. What is installed is on the node's own list.
        source["uris"] = broken if source.get("type") == "rpm" else [*source["uris"], *broken]
        path.write_text(yaml.safe_dump(values))
    return inventory


def evict(app: str) -> tuple[str, str]:
    """Words that let a run evict the pods of an application."""
    return ("-e", json.dumps({"gpu_upgrade_evict": {"app": app}}))


def upgrade_words(group: str, version: str, *more: str) -> list[str]:
    """Arguments of ansible-playbook for an upgrade with short times."""
    return [UPGRADE_PLAYBOOK, "-l", group, "-e", f"gpu_upgrade_version={version}", *SHORT, *more]


# --- what the cluster says -------------------------------------------------------------------------------------


class Eyes:
    """Reads the cluster without a process for each question."""

    def __init__(self, kubeconfig: Path) -> None:
        self.api = client.CoreV1Api(config.new_client_from_config(str(kubeconfig)))

    def nodes(self) -> dict[str, Node]:
        """Node objects by name."""
        return {
            node["metadata"]["name"]: node for node in self._items(self.api.list_node(_request_timeout=10))
        }

    def pods(self, namespace: str) -> list[dict[str, Any]]:
        """Pods of a namespace."""
        return self._items(self.api.list_namespaced_pod(namespace, _request_timeout=10))

    def _items(self, found: Any) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.api.api_client.sanitize_for_serialization(found)["items"]
        return items

    def service(self, namespace: str, name: str) -> str:
        """What a Service answers, asked through the API server."""
        return str(self.api.connect_get_namespaced_service_proxy(f"{name}:80", namespace, _request_timeout=5))


def state_of(node: Node) -> str:
    """State of a node's ledger; empty without one."""
    entry = ledger.read(node)
    return str(entry.state) if entry else ""


def cordoned(node: Node) -> bool:
    """Whether it takes no pods."""
    return bool((node.get("spec") or {}).get("unschedulable"))


def stamp_of(node: Node) -> dict[str, Any]:
    """What its last complete validation proved."""
    found: dict[str, Any] = json.loads(node["metadata"]["annotations"][STAMP])
    return found


def out(node: Node, gpus: int) -> bool:
    """Whether a node's GPUs are out, as the budget counts: cordoned, not Ready, tainted, incomplete, or in an upgrade."""
    conditions = {row["type"]: row["status"] for row in node["status"].get("conditions") or []}
    taints = [taint["key"] for taint in node["spec"].get("taints") or []]
    offered = int((node["status"].get("allocatable") or {}).get(GPU_RESOURCE, 0))
    return (
        cordoned(node)
        or conditions.get("Ready") != "True"
        or STARTUP_TAINT in taints
        or offered < gpus
        or bool(ledger.unfinished(node))
    )


# --- invariants ------------------------------------------------------------------------------------------------


@dataclass
class Watch:
    """Looks at the cluster all the time, in a thread, and notes every moment in which an invariant does not hold.

    - The GPUs that are out are never more than the budget.
    - A protected pod is never deleted, and never runs on a node whose driver is being changed.
    - The Service answers.
    - A node that somebody else cordoned stays cordoned. A node that is to be left alone is never cordoned, nor gets a ledger.

    Attributes:
        eyes: reads the cluster.
        gpus: node -> its GPUs, for all nodes that count.
        budget: GPUs that may be out.
        namespace: of the pods.
        protected: names of pods that nobody may delete, until they end.
        service: a Service that must answer; empty for none.
        foreign: nodes that somebody else has cordoned; they count as out.
        untouched: nodes that are to be left alone.
    """

    eyes: Eyes
    gpus: Mapping[str, int]
    budget: int
    namespace: str = ""
    protected: frozenset[str] = frozenset()
    service: str = ""
    foreign: frozenset[str] = frozenset()
    untouched: frozenset[str] = frozenset()
    broken: list[str] = field(default_factory=list)
    states: dict[str, list[str]] = field(default_factory=dict)
    samples: int = 0
    blind: int = 0
    most_out: int = 0
    _ended: set[str] = field(default_factory=set)
    _stop: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def on(self) -> Iterator[Watch]:
        """Watch until the end of the block, then say what did not hold."""
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            thread.join(60)
        assert self.broken == [], "\n".join(self.broken[:20])
        # A watch that saw nothing proves nothing.
        assert self.samples >= 5, f"{self.samples} samples, {self.blind} without an answer"
        assert self.blind <= self.samples / 10, f"{self.blind} of {self.samples} samples without an answer"

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.look()
                self.samples += 1
            except Exception as error:  # noqa: BLE001 - a thread's error would be lost; too many of them fail the test
                self.blind += 1
                print(f"watch: {error}", flush=True)
            self._stop.wait(TICK_S)

    def look(self) -> None:
        """One sample."""
        # Pods first: one that ended before the nodes were read did not run when the driver was changed.
        pods = (
            {pod["metadata"]["name"]: pod for pod in self.eyes.pods(self.namespace)} if self.namespace else {}
        )
        nodes = self.eyes.nodes()
        down = {name: gpus for name, gpus in self.gpus.items() if out(nodes[name], gpus)}
        self.most_out = max(self.most_out, sum(down.values()))
        if sum(down.values()) > self.budget:
            self._note(f"{sum(down.values())} GPUs out, of {self.budget} that may be: {sorted(down)}")
        for name in self.gpus:
            state = state_of(nodes[name])
            seen = self.states.setdefault(name, [])
            if seen[-1:] != [state]:
                seen.append(state)
        for name in self.foreign:
            if not cordoned(nodes[name]):
                self._note(f"'{name}' was cordoned by somebody else, and is not any more")
        for name in self.untouched:
            if cordoned(nodes[name]) or ledger.unfinished(nodes[name]):
                self._note(f"'{name}' is not left alone: {state_of(nodes[name]) or 'cordoned'}")
        for name in self.protected - self._ended:
            self._protect(name, pods.get(name), nodes)
        if self.service:
            self._ask()

    def _protect(self, name: str, pod: Mapping[str, Any] | None, nodes: Mapping[str, Node]) -> None:
        if pod is None or pod["metadata"].get("deletionTimestamp"):
            self._note(f"pod '{name}' was deleted")
        elif pod["status"]["phase"] == "Succeeded":
            self._ended.add(name)
        elif pod["status"]["phase"] != "Running":
            self._note(f"pod '{name}' is {pod['status']['phase']}")
        elif state_of(nodes[pod["spec"]["nodeName"]]) in ("changing", "loaded", "validating", "rolling_back"):
            self._note(f"pod '{name}' runs while the driver of '{pod['spec']['nodeName']}' is changed")

    def _ask(self) -> None:
        """A client tries again at once: its first try may reach a pod that has just ended."""
        said = ""
        for _ in range(TRIES):
            try:
                self.eyes.service(self.namespace, self.service)
                return
            except Exception as error:  # noqa: BLE001 - whatever it is, there was no answer
                said = str(error).splitlines()[0]
            time.sleep(BETWEEN_TRIES_S)
        self._note(f"Service '{self.service}' does not answer: {said}")

    def _note(self, text: str) -> None:
        line = f"{time.strftime('%H:%M:%S')} {text}"
        if not self.broken or self.broken[-1][9:] != text:
            print(f"watch: {line}", flush=True)
            self.broken.append(line)


# --- runs ------------------------------------------------------------------------------------------------------


@dataclass
class Running:
    """A playbook in the background."""

    process: subprocess.Popen[bytes]
    log: Path
    words: Sequence[str]
    begin: float = field(default_factory=time.monotonic)

    def ended(self, timeout: float = RUN_TIMEOUT_S) -> Ended:
        """Wait for its end."""
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise AssertionError(
                f"{self.words} took longer than {timeout:.0f} s:\n{self.said()[-6000:]}"
            ) from None
        return Ended(self.words, status, self.said(), time.monotonic() - self.begin, self.log)

    def said(self) -> str:
        """Its output until now."""
        return COLOURS.sub("", self.log.read_text(errors="replace"))

    def kill(self) -> dict[int, str]:
        """End ansible-playbook as an out-of-memory kill does: its workers live on, and are returned."""
        workers = self.workers()
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        return workers

    def workers(self) -> dict[int, str]:
        """Processes that ansible-playbook has forked, with their start; each has a session of its own."""
        mine = "\0".join(self.words).encode()
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                pid = int(folder.name)
                if mine in (folder / "cmdline").read_bytes() and pid != self.process.pid:
                    found[pid] = process_start(pid)
        return found


def wait_gone(workers: Mapping[int, str], seconds: float = 90) -> None:
    """Wait until the workers of a killed run have ended by themselves."""

    def look() -> Done[None] | NotYet:
        alive = [pid for pid, begin in workers.items() if process_start(pid) == begin]
        return NotYet(f"{alive} live") if alive else Done(None)

    wait_until("the workers of a killed run to end", look, Deadline(seconds), tick=0.5)


def start(lab: Lab, inventory: Path, *words: str) -> Running:
    """Start a playbook."""
    process, log = lab.start(lab.program("ansible-playbook"), "-i", str(inventory), *words)
    return Running(process, log, words)


def wait_state(eyes: Eyes, run: Running, node: str, wanted: Sequence[str], seconds: float = 300) -> str:
    """Wait until a node's ledger has one of these states, and the run that brings it there lives."""

    def look() -> Done[str] | NotYet:
        state = state_of(eyes.nodes()[node])
        if state in wanted:
            return Done(state)
        if run.process.poll() is not None:
            raise GiveUp(f"The run ended with {run.process.poll()} in state '{state}':\n{run.said()[-6000:]}")
        return NotYet(state or "no ledger")

    return wait_until(f"the ledger of '{node}' to be {wanted}", look, Deadline(seconds), tick=0.2)


def wait_for(what: str, good: Callable[[], bool], seconds: float = 120) -> None:
    """Wait until something holds."""
    wait_until(what, lambda: Done(None) if good() else NotYet("not yet"), Deadline(seconds), tick=0.5)


def reports(folder: Path, name: str) -> list[dict[str, Any]]:
    """The reports of that name below a folder, the oldest first."""
    paths = sorted(folder.rglob(name), key=lambda path: path.stat().st_mtime)
    return [json.loads(path.read_text()) for path in paths]


def untouched_parts(node: Node) -> dict[str, Any]:
    """What nothing but a change of ours would alter: the rest is status, and heartbeats."""
    metadata = node["metadata"]
    annotations = {
        key: value for key, value in metadata["annotations"].items() if key.startswith("gpusmith.io/")
    }
    return {"labels": metadata["labels"], "annotations": annotations, "spec": node["spec"]}
