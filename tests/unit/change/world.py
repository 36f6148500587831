"""One node in memory: machine and Node object, and a run that can be killed around every effect on them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from gpusmith.change import ledger as ledgers
from gpusmith.change.ledger import FINISHED, Ledger, State
from gpusmith.change.outcome import Outcome, Times
from gpusmith.change.protocol import ChangeFailed, Halted, InUse
from gpusmith.change.steps import NodeChange
from gpusmith.cluster.api import CONFLICT, ApiRefused
from gpusmith.errors import GpusmithError, ToolError
from gpusmith.names import OPERANDS_ON, OPERANDS_PAUSED, SENTINEL_LABEL, SENTINEL_LABELS, UPGRADE
from gpusmith.upgrade import previous, snapshot
from gpusmith.upgrade.on_machine import WORDS

T = TypeVar("T")

OLD, NEW = "580.178.04", "580.200.01"
NAME, GPUS = "gpu-1", 4
UNIT = "nvidia-dcgm.service"
WATCHED = {SENTINEL_LABELS + "driver.installed": "true"}
"""Labels of a node that NVSentinel looks after."""


class Killed(BaseException):
    """kill -9 of the run."""


@dataclass
class World:
    """A node, and what happens to it.

    Attributes:
        bad: in which step a version fails: 'install', 'load', 'panic' (the machine dies), 'compare' or 'validate'.
        job_ends: after how many looks the pod that holds a GPU ends; None for never.
        users_end: after how many looks a process lets go of the driver; None for never.
        strangers_end: likewise of a process without a pod.
        evicts: whether pods may be evicted.
        room_in_s: when the budget allows the node.
        trouble: by an effect's number: 'before', 'within' and 'after' it the run is killed; 'error' and 'conflict' are answers.
        hold: the node is not admitted.
        said: the Node's condition says that it is proved.
        sick: versions with which the node is broken.
        labelled_in: after how many looks feature discovery has labelled the driver that is loaded; None for never.
    """

    bad: Mapping[str, str] = field(default_factory=dict)
    job_ends: int | None = 0
    users_end: int | None = 0
    strangers_end: int | None = 0
    evicts: bool = False
    room_in_s: float = 0.0
    trouble: dict[int, str] = field(default_factory=dict)
    hold: bool = False
    sick: frozenset[str] = frozenset()
    labelled_in: int | None = 0

    packages: str = OLD
    loaded: str | None = OLD
    validated: str | None = OLD
    said: bool = True
    blocked: bool = False
    running: bool = True
    unit: bool = True
    folder: set[str] = field(default_factory=set)
    offered: set[str] = field(default_factory=lambda: {OLD, NEW})
    label: str = OPERANDS_ON
    described: str = OLD
    gpus: Mapping[str, Any] = field(default_factory=lambda: {"gpus": {"GPU-1": {"vbios": "96"}}})
    effects: int = 0
    time: float = 0.0
    wrong: list[str] = field(default_factory=list)
    did: list[str] = field(default_factory=list)
    object: dict[str, Any] = field(
        default_factory=lambda: {
            "metadata": {"name": NAME, "resourceVersion": "1", "annotations": {}, "labels": dict(WATCHED)},
            "spec": {},
        }
    )

    words = WORDS

    def on_operands(self, value: str) -> None:
        """Replaced by tests, for what comes at that moment."""

    # --- the run -------------------------------------------------------------------------------------------------

    def run(self, number: int = 1, back: bool = False, target: str = NEW, rollback: bool = False) -> Outcome:
        """One run to its end; Killed if it was."""
        return NodeChange(
            name=NAME,
            run=f"run-{number}",
            target=target,
            origin=self.packages,
            change=self,
            cluster=self,
            fence=lambda: None,
            say=lambda *_: None,
            back=back,
            rollback=rollback,
            units=(UNIT,),
            evicts=self.evicts,
            gpus=GPUS,
            times=Times(60, 20, 20),
            sleep=self.sleep,
            clock=lambda: self.time,
        ).carry_out()

    def sleep(self, seconds: float) -> None:
        """Time goes on by itself."""
        self.time += max(seconds, 0.1)

    def _effect(self, name: str, work: Callable[[], T], within: Callable[[], None] | None = None) -> T:
        self.effects += 1
        self.did.append(name)
        what = self.trouble.pop(self.effects, "")
        if what == "error":
            raise ToolError(f"'{name}' got no answer.")
        if what == "conflict" and name == "write":
            raise ApiRefused("changed meanwhile", "", CONFLICT)
        if what == "before":
            raise Killed
        if what == "within":
            if within:
                within()
            raise Killed
        done = work()
        if what == "after":
            raise Killed
        return done

    def must(self, true: bool, words: str) -> None:
        """An invariant."""
        if not true:
            self.wrong.append(f"effect {self.effects} ({', '.join(self.did[-6:])}): {words}")

    # --- the machine ---------------------------------------------------------------------------------------------

    def prepare(self, version: str) -> None:
        def work() -> None:
            if version not in self.offered | self.folder:
                raise ToolError(f"No repository has '{version}'.")
            self.folder.add(version)

        self._effect("fetch", work)

    def precheck(self, version: str) -> None:
        def work() -> None:
            self.must(version == self.loaded, "checked at another version")
            if version in self.sick:
                raise GpusmithError("It is broken before anything was done to it")

        self._effect("precheck", work)

    def is_there(self, version: str) -> bool:
        return self.packages == version and self.loaded == version

    def _look(self, name: str) -> list[str]:
        left: int | None = getattr(self, name)
        if left:
            setattr(self, name, left - 1)
        return ["somebody"] if left is None or left > 0 else []

    def users(self, stopped: Sequence[str], of_pods: bool = True) -> Sequence[str]:
        if of_pods:
            return self._effect("users", lambda: self._look("users_end"))
        return self._effect("strangers", lambda: self._look("strangers_end"))

    def stop(self, units: Sequence[str]) -> None:
        def half() -> None:
            self.running = self.unit = False
            self.blocked = True

        def work() -> None:
            self.must(self.cordoned, "unloaded on a node that takes pods")
            self.must(self.job_ends == 0, "unloaded under a job")
            self.must(self.label == OPERANDS_PAUSED, "unloaded under the operands")
            self.must(self.entry is not None and not self.entry.finished, "unloaded without a ledger")
            left_alone = self.object["metadata"]["labels"].get(SENTINEL_LABEL) == "false"
            self.must(left_alone, "unloaded under NVSentinel's eyes")
            if self.users_end != 0:
                raise InUse("a process uses the driver")
            half()
            self.loaded = None
            self.validated = None

        self._effect("unload", work, half)

    def apply(self, version: str) -> None:
        def half() -> None:
            self.packages = "half"

        def work() -> None:
            self.must(version in self.folder, "installed what the folder has not")
            self.must(self.loaded in (None, version), "replaced packages under a loaded module")
            if self.bad.get(version) == "install":
                self.packages = "half"
                raise ChangeFailed(f"{version} does not install")
            self.packages = version

        self._effect("install", work, half)

    def start(self, version: str, units: Sequence[str]) -> None:
        def work() -> None:
            self.blocked = False
            if self.bad.get(version) == "panic":
                raise Killed
            if self.bad.get(version) == "load":
                raise ChangeFailed(f"{version} does not load")
            self.must(self.packages == version, "loaded what is not installed")
            self.loaded, self.running, self.unit = version, True, UNIT in units or self.unit

        self._effect("load", work)

    def snapshot(self, earlier: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        now = self._effect("snapshot", lambda: self.gpus)
        return now if earlier is None else snapshot.of_rollback(now, earlier)

    def compare(self, before: Mapping[str, Any]) -> None:
        def work() -> None:
            self.must(bool(before), "nothing to compare with")
            if self.bad.get(str(self.loaded)) == "compare":
                raise ChangeFailed("other UUIDs")

        self._effect("compare", work)

    def prove(self, version: str) -> None:
        def work() -> None:
            self.must(self.cordoned, "validated on a node that takes pods")
            self.must(self.label == OPERANDS_ON, "validated without operands")
            if self.bad.get(version) == "validate":
                raise ChangeFailed("the suite failed")
            self.must(self.loaded == version == self.packages, "validated another version")
            self.validated, self.said = version, True

        self._effect("validate", work)

    # --- the cluster ---------------------------------------------------------------------------------------------

    @property
    def cordoned(self) -> bool:
        return bool(self.object["spec"].get("unschedulable"))

    @property
    def entry(self) -> Ledger | None:
        return ledgers.read(self.object)

    def node(self) -> Mapping[str, Any]:
        return self._effect("node", lambda: copy.deepcopy(self.object))

    def write(self, body: Mapping[str, Any]) -> None:
        self._effect("write", lambda: self._patch(body))

    def _patch(self, body: Mapping[str, Any]) -> None:
        metadata = self.object["metadata"]
        if body["metadata"]["resourceVersion"] != metadata["resourceVersion"]:
            raise ApiRefused("changed meanwhile", "", CONFLICT)
        annotations = {**metadata["annotations"], **body["metadata"]["annotations"]}
        metadata["annotations"] = {name: text for name, text in annotations.items() if text is not None}
        labels = {**metadata["labels"], **body["metadata"].get("labels", {})}
        metadata["labels"] = {name: text for name, text in labels.items() if text is not None}
        metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)
        if "spec" in body:
            change = body["spec"]["unschedulable"]
            self.object["spec"] = {"unschedulable": True} if change else {}
            if not change:
                self.must(self.validated == self.loaded == self.packages, "given back unvalidated")
                self.must(self.label == OPERANDS_ON, "given back without operands")
                self.must(self.running and self.unit and not self.blocked, "given back without its services")
                self.must(
                    json.loads(body["metadata"]["annotations"][UPGRADE])["state"] in FINISHED,
                    "given back unfinished",
                )

    def would_admit(self, entry: Ledger) -> str:
        return self._effect("would_admit", lambda: self._why_not(entry))

    def _why_not(self, entry: Ledger) -> str:
        if self.hold:
            raise Halted("held")
        if self.cordoned and not entry.rollback:
            raise Halted("somebody cordoned it")
        return "the budget is used up" if self.time < self.room_in_s else ""

    def admit(self, entry: Ledger) -> str:
        def work() -> str:
            if why_not := self._why_not(entry):
                return why_not
            own = replace(entry, cordoned=not self.cordoned, opted_out=ledgers.to_opt_out(self.object))
            self._patch(ledgers.patch(self.object, own, cordon=True))
            return ""

        return self._effect("admit", work)

    def holders(self) -> Sequence[str]:
        return self._effect("holders", lambda: self._look("job_ends"))

    def operands(self, value: str) -> None:
        def work() -> None:
            self.label = value

        self._effect("operands", work)
        self.on_operands(value)

    def unproved(self, why: str) -> None:
        def work() -> None:
            self.said = False

        self._effect("unproved", work)

    def operand_pods(self) -> Sequence[str]:
        return self._effect("operand_pods", lambda: [] if self.label == OPERANDS_PAUSED else ["plugin"])

    def allocatable(self) -> int:
        return self._effect("allocatable", lambda: GPUS if self.label == OPERANDS_ON and self.loaded else 0)

    def stale(self, node: Mapping[str, Any], version: str) -> Sequence[str]:
        def work() -> Sequence[str]:
            if self.labelled_in:
                self.labelled_in -= 1
            elif self.labelled_in == 0 and self.loaded and self.label == OPERANDS_ON:
                self.described = self.loaded
            said = self.described
            return [f"'{said}'"] if said not in ("", version) else []

        return self._effect("described_driver", work)

    def remembered(self, entry: Ledger) -> Mapping[str, str | None]:
        found: dict[str, str | None] = previous.remembered(entry)
        return found


def to_the_end(world: World, runs: int = 12) -> Outcome | None:
    """Run the same command again until nothing is left to do; the last outcome."""
    last: Outcome | None = None
    for number in range(1, runs + 1):
        try:
            last = world.run(number)
        except Killed:
            continue
        entry = world.entry
        if entry is None or entry.finished or entry.state is State.STUCK:
            return last
    return last
