"""The effects of a change on a Node object."""

from __future__ import annotations

import datetime as dt
import fcntl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpusmith.change import budget
from gpusmith.change import ledger as ledgers
from gpusmith.change.budget import Answer, Fleet, Rules
from gpusmith.change.ledger import Ledger
from gpusmith.change.protocol import Halted, Node
from gpusmith.cluster import condition, dra, leftovers, maintenance, node_metadata
from gpusmith.cluster.api import CONFLICT, MISSING, ApiRefused, Cluster, Object
from gpusmith.cluster.holders import Holder, holders
from gpusmith.cluster.retries import PASSING
from gpusmith.cluster.views import is_cordoned, node_path, nodes_of, offered
from gpusmith.data.operands import DEVICE_PLUGIN
from gpusmith.errors import GpusmithError
from gpusmith.names import (
    HOLD,
    MANAGED_BY,
    MANAGER,
    OPERANDS_LABEL,
    OPERANDS_ON,
    RUN_NAMESPACE,
)
from gpusmith.problems import Problem
from gpusmith.wanted import layouts
from gpusmith.wanted.layouts import Layout
from gpusmith.wanted.offers import gpus_of
from gpusmith.wording import quoted, shorten
from gpusmith.workloads import namespace


@dataclass
class NodeObject:
    """One Node object.

    Attributes:
        cluster: the API.
        name: of the Node.
        rules: of the run.
        queue: nodes of the plan, in its order.
        members: Nodes of the inventory, each with the number of its GPUs.
        stamped: see `Fleet.of`.
        folder: of the run on the controller, where its workers agree on who is admitted.
        evict: pods that hold GPUs and match these labels are evicted; empty for none.
        idle_s: how long a node waits for room while no node of the run is on its way.
        clock: replaced in tests.
    """

    cluster: Cluster
    name: str
    rules: Rules
    queue: Sequence[str]
    members: Mapping[str, int]
    stamped: str
    folder: Path
    evict: Mapping[str, str] = field(default_factory=dict)
    idle_s: float = 600.0
    clock: Callable[[], float] = time.monotonic
    _idle_since: float | None = None

    def node(self) -> Node:
        """The Node as it is now."""
        found = self.cluster.get(node_path(self.name))
        if found is None:
            raise GpusmithError(f"The cluster has no node '{self.name}' any more.", "Look who deleted it.")
        return found

    def write(self, body: Mapping[str, Any]) -> None:
        """Patch it."""
        self.cluster.patch(node_path(self.name), dict(body), MANAGER)

    # --- admission -----------------------------------------------------------------------------------------------

    def would_admit(self, entry: Ledger) -> str:
        """Why it would not be admitted now."""
        return self._admission(entry, write=False)

    def admit(self, entry: Ledger) -> str:
        """Cordon it and write its ledger, if canaries, failures and budget allow; else why not."""
        return self._admission(entry, write=True)

    def _admission(self, entry: Ledger, write: bool) -> str:
        """One worker at a time: two that count the same GPUs would go out together."""
        with self._alone():
            nodes = {row["metadata"]["name"]: row for row in nodes_of(self.cluster)}
            mine = nodes.get(self.name)
            if mine is None:
                raise GpusmithError(
                    f"The cluster has no node '{self.name}' any more.", "Look who deleted it."
                )
            there = ledgers.read(mine)
            if there is not None and there.run == entry.run and not there.finished:
                return ""  # the answer to our own patch got lost
            self._refuse(mine, entry)
            fleet = Fleet.of(nodes.values(), self.members, self.stamped)
            # A rollback is for nodes that do not work.
            if (why_out := fleet[self.name].out) and not entry.rollback:
                raise Halted(f"It is out meanwhile: {why_out}.")
            answer = budget.admission(
                fleet, self.name, self.queue, self.rules, dt.datetime.now(dt.UTC), self._gone()
            )
            if answer.answer is Answer.HALT:
                raise Halted(f"Not begun: {answer.why}.")
            if answer.answer is Answer.WAIT:
                return self._waiting(fleet, answer.why)
            if not write:
                return ""
            try:
                # Who else cordoned it keeps the cordon.
                own = replace(entry, cordoned=not is_cordoned(mine), opted_out=ledgers.to_opt_out(mine))
                self.write(ledgers.patch(mine, own, cordon=True))
            except ApiRefused as error:
                if error.status != CONFLICT:
                    raise
                return "its Node object changed at that moment"
            return ""

    def _refuse(self, node: Object, entry: Ledger) -> None:
        if ledgers.is_held(node):
            raise Halted(f"It carries '{HOLD}'.")
        if is_cordoned(node) and not entry.rollback:
            raise Halted(
                "Somebody cordoned it meanwhile.", f"If it may be upgraded: kubectl uncordon {self.name}"
            )

    def _waiting(self, fleet: Fleet, why: str) -> str:
        """Nobody waits for ever for what no node of this run will change."""
        ended = {path.stem for path in self.folder.glob("*.ended")}
        begun = {
            member.name
            for member in fleet.members.values()
            if member.begun and member.ledger and member.ledger.run == self.rules.run
        }
        if begun - ended or self._idle_since is None:
            self._idle_since = self.clock()
        # Nodes of the plan whose turn has not come may be about to begin, unless one stands in their way.
        patience = self.rules.soak_s + (0 if begun & ended else self.idle_s)
        if self.clock() - self._idle_since > patience:
            stuck = f"; {quoted(sorted(begun & ended))} did not come to an end" if begun & ended else ""
            raise Halted(f"Not begun: {why}, and no node of this run is on its way{stuck}.")
        return why

    def leave_out(self) -> None:
        """Tell the run's other workers that this node will not be a canary."""
        with self._alone():
            (self.folder / f"{self.name}.left-out").touch()

    def end(self) -> None:
        """Tell them that nobody works on this node any more, whatever its ledger says."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / f"{self.name}.ended").touch()

    def _gone(self) -> set[str]:
        return {path.stem for path in self.folder.glob("*.left-out")}

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "admission.lock").open("a") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            yield

    # --- its pods ------------------------------------------------------------------------------------------------

    def holders(self) -> Sequence[str]:
        """Pods that hold GPUs of it; they are asked to go if all of them may be evicted."""
        pods = maintenance.pods_of(self.cluster, self.name)
        found = holders(pods, dra.read(self.cluster, pods, self.name))
        if any(holder.namespace.startswith(RUN_NAMESPACE) for holder in found):
            self._clear()
        named = {_title(pod): pod for pod in pods}
        # Pods that go for nothing help nobody: with one that stays, the node is given back.
        if self.evict and all(self._may_go(named[holder.title]) for holder in found):
            return [self._asked_to_go(holder, named[holder.title]) for holder in found]
        return [holder.words for holder in found]

    def _may_go(self, pod: Object) -> bool:
        """Whether it may be evicted, or goes by itself."""
        labels = pod["metadata"].get("labels") or {}
        return bool(pod["metadata"].get("deletionTimestamp")) or self.evict.items() <= labels.items()

    def _clear(self) -> None:
        """Remove what a killed run of the suite left: nobody else will end its pods."""
        for name in leftovers.find(self.cluster, lambda _: None).dead:
            namespace.remove(self.cluster, name)

    def _asked_to_go(self, holder: Holder, pod: Object) -> str:
        words = holder.words
        if pod["metadata"].get("deletionTimestamp"):
            return words
        try:
            self.cluster.evict(holder.namespace, holder.name)
        except ApiRefused as error:
            if error.status == MISSING:
                return words
            if error.status == CONFLICT or error.status in PASSING:
                return f"{words} ({error.message.rstrip('.')})"
            raise
        return f"{words} (asked to end)"

    def operand_pods(self) -> Sequence[str]:
        """Pods on it that follow the label of our operands."""
        return [
            f"'{_title(pod)}'"
            for pod in maintenance.pods_of(self.cluster, self.name)
            if ((pod.get("spec") or {}).get("nodeSelector") or {}).get(OPERANDS_LABEL) == OPERANDS_ON
        ]

    # --- its condition, its label and its GPUs -------------------------------------------------------------------

    def unproved(self, why: str) -> None:
        """A stamp says of which version it is, a condition does not."""
        node = self.node()
        if condition.of_node(node) is not None:
            condition.put(self.cluster, node, Problem(why, ""), dry_run=False)

    def operands(self, value: str) -> None:
        """Set the label by which our operands come and go."""
        self.set_label(OPERANDS_LABEL, value)

    def label(self, name: str) -> str:
        """A label of the Node; empty without it."""
        return str((self.node()["metadata"].get("labels") or {}).get(name) or "")

    def set_label(self, name: str, value: str) -> None:
        """Set a label of ours as site.yml does, so that the next site.yml changes nothing; an empty value takes it off."""
        node = dict(self.node())
        labels = node["metadata"].get("labels") or {}
        own = {name: labels[name] for name in node_metadata.owned_labels(node) if name in labels}
        if OPERANDS_LABEL not in own:
            raise GpusmithError(
                f"Label '{OPERANDS_LABEL}' of node '{self.name}' is not ours; ours are {shorten(sorted(own)) or 'none'}.",
                "Run site.yml, which sets it.",
            )
        wanted = {key: text for key, text in {**own, name: value}.items() if text}
        body = node_metadata.label_patch(node, wanted)
        if body is not None:
            self.cluster.apply(node_path(self.name), body, MANAGER)

    def must_have_operands(self, layout: Layout) -> None:
        """Refuse a layout that no operand of ours serves."""
        name = layouts.daemon_set(DEVICE_PLUGIN, layout)
        found = self.cluster.items("/apis/apps/v1/daemonsets", fieldSelector=f"metadata.name={name}")
        if not any((row["metadata"].get("labels") or {}).get(MANAGED_BY) == MANAGER for row in found):
            raise GpusmithError(
                f"The cluster has no DaemonSet '{name}', which serves {layout.words}.",
                "Run site.yml, which applies it.",
            )

    def allocatable(self) -> int:
        """GPUs that it offers to the scheduler."""
        found = nodes_of(self.cluster, self.name)
        node = found[0] if found else self.node()
        return gpus_of(offered(node), layouts.of_node(node).offers(self.members[self.name]))


def _title(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
