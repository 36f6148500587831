"""The steps of one node's change, forward and back.

Every step can be repeated. The ledger says how far a run came, and each state is written before what it names is done: whoever
finds it knows what may have happened. Before `changing` a node is released; afterwards it goes forward, or back.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from gpusmith.change import ledger as ledgers
from gpusmith.change.ledger import UNTOUCHED, Ledger, State
from gpusmith.change.outcome import Outcome, Result, Times
from gpusmith.change.protocol import Change, ChangeFailed, Fenced, Halted, InCluster, InUse, Node
from gpusmith.cluster.api import CONFLICT, ApiRefused
from gpusmith.cluster.views import is_cordoned
from gpusmith.errors import GpusmithError, ToolError
from gpusmith.names import HOLD, OPERANDS_ON, OPERANDS_PAUSED
from gpusmith.wait import Deadline, Done, GiveUp, NotYet, WaitTimeout, wait_until

TICK_S = 2.0
TRIES = 5
ATTEMPTS = 2
"""How often a change is begun before the node goes back: a run that always ends in it is the version's doing."""
FRESH_S = 900.0
"""How long what was found on a node may wait for its turn; then it is looked at again."""


@dataclass
class NodeChange:
    """One node's change in one run.

    Attributes:
        name: of the Node.
        run: ID of the run.
        target: version that is wanted.
        origin: version that the machine has, if no ledger says it.
        change: its effects on the machine.
        cluster: those on its Node object.
        fence: raises Fenced when this run must not act any more.
        say: told about every step, with the state.
        back: only bring an unfinished change back to the version before.
        rollback: the target is the version from before an earlier change.
        units: units of others that may be stopped for it.
        evicts: whether pods may be evicted for it.
        gpus: number of GPUs of the node.
        model: their model.
        flavour: kind of what it has, see `Ledger`.
        times: how long to wait.
        sleep: replaced in tests.
        clock: replaced in tests.
    """

    name: str
    run: str
    target: str
    origin: str
    change: Change
    cluster: InCluster
    fence: Callable[[], None]
    say: Callable[[str, str], None]
    back: bool = False
    rollback: bool = False
    units: Sequence[str] = ()
    evicts: bool = False
    gpus: int = 0
    model: str = ""
    flavour: str = ""
    times: Times = field(default_factory=Times)
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    _entry: Ledger | None = None

    def carry_out(self) -> Outcome:
        """Begin the node's change, or finish the one that was begun.

        Raises:
            Fenced: this run must not act any more; the next one finishes it.
        """
        try:
            entry = ledgers.read(self.cluster.node())
            if entry is not None and not entry.finished:
                return self._resumed(entry)
            if self.back:
                return Outcome(Result.UNTOUCHED, f"no {self.change.words.name} of it is unfinished")
            return self._begun(entry)
        except Fenced:
            raise
        except GpusmithError as error:
            return self._interrupted(error)

    # --- from the beginning, or from where another run was killed ------------------------------------------------

    def _begun(self, last: Ledger | None) -> Outcome:
        self.say("preparing", f"{self.change.words.prepare} {self.target} and {self.origin}")
        try:
            for version in (self.origin, self.target):
                self._do(partial(self.change.prepare, version))
            before = self._looked_at(last)
        except Fenced:
            raise
        except GpusmithError as error:
            return Outcome(Result.UNTOUCHED, str(error))
        entry = Ledger(
            run=self.run,
            target=self.target,
            origin=self.origin,
            state=State.ADMITTED,
            since=ledgers.now(),
            cordoned=True,
            gpus=self.gpus,
            model=self.model,
            before=before,
            flavour=self.flavour,
            rollback=self.rollback,
            change=self.change.words.name,
        )
        try:
            entry = self._admitted(entry, last)
        except (Fenced, Halted):
            raise
        except GpusmithError:
            # The answer may have got lost, and the node be cordoned.
            self._entry = entry if self._may_be_admitted() else None
            raise
        self._entry = entry
        # Whose cordon it is, and what else was there, the admission has written.
        node = self.cluster.node()
        self._refuse_others(node)
        self._entry = ledgers.read(node)
        self.say(State.ADMITTED, "cordoned")
        return self._forward()

    def _looked_at(self, last: Ledger | None) -> Mapping[str, Any]:
        """What the GPUs are, on a node that is not broken."""
        self._checked()
        return self.change.snapshot(self._earlier(last) if self.rollback else None)

    def _checked(self) -> None:
        """What is broken before is no version's fault later; but who takes one back may do so because it breaks the node."""
        self.say("preparing", "checking the node before anything is changed")
        try:
            self._do(lambda: self.change.precheck(self.origin))
        except Fenced:
            raise
        except GpusmithError as error:
            if not self.rollback:
                raise
            self.say("preparing", f"taking {self.origin} back although: {error}")

    def _earlier(self, last: Ledger | None) -> Mapping[str, Any]:
        """What the GPUs were before the version that is taken back came, if the last ledger says it."""
        if last is None or last.change != self.change.words.name:
            return {}
        if self.target != (last.target if last.rollback else last.origin):
            return {}
        return last.before

    def _may_be_admitted(self) -> bool:
        try:
            there = ledgers.read(self.cluster.node())
        except GpusmithError:
            return True
        return there is not None and there.run == self.run and not there.finished

    def _admitted(self, entry: Ledger, last: Ledger | None) -> Ledger:
        """Wait for the node's turn; a node whose turn comes late is looked at again before."""
        said: list[str] = []
        fresh = Deadline(FRESH_S, self.clock)
        trouble: Deadline | None = None

        def anew() -> str:
            """Look at it again; why that could not be done. Only what is wrong with the node itself leaves it out."""
            nonlocal entry, fresh, trouble
            trouble = trouble or Deadline(FRESH_S, self.clock)
            try:
                entry = replace(entry, before=self._looked_at(last))
            except ToolError as error:
                if trouble.passed():
                    raise
                return f"it could not be looked at again: {error.message}"
            fresh, trouble = Deadline(FRESH_S, self.clock), None
            return ""

        def look() -> Done[Ledger] | NotYet:
            self.fence()
            # Only a node whose turn has come is looked at again: all that wait would do so at the same time, for nothing.
            why_not = (self.cluster.would_admit(entry) or anew()) if fresh.passed() else ""
            why_not = why_not or self.cluster.admit(replace(entry, since=ledgers.now()))
            if why_not and said != [why_not]:
                said[:] = [why_not]
                self.say("waiting", why_not)
            return NotYet(why_not) if why_not else Done(entry)

        # It ends by itself: as long as nodes of this run are on their way, one of them makes room or halts the run.
        return wait_until(
            "the budget to allow it", look, Deadline(float("inf"), self.clock), TICK_S, self.sleep
        )

    def _resumed(self, entry: Ledger) -> Outcome:
        if entry.change != self.change.words.name:
            return Outcome(Result.UNTOUCHED, f"its {entry.change} is '{entry.state}': finish that first")
        self.say(entry.state, f"going on with what run '{entry.run}' began")
        self._entry = entry
        # A stuck node is tried again. With the new run's ID it would count as a failure of it, and halt the other nodes.
        again = entry.state is State.STUCK and not self.back
        self._write(run=self.run, state=State.CHANGING if again else entry.state)
        if self.back or entry.state is State.ROLLING_BACK:
            if entry.state in UNTOUCHED:
                return self._release("it was called back")
            return self._back(entry.reason or "it was called back")
        if entry.state in (State.CHANGING, State.LOADED) and entry.attempt >= ATTEMPTS:
            return self._back(f"its change was begun {entry.attempt} times and never came to an end")
        return self._forward()

    # --- forward -------------------------------------------------------------------------------------------------

    def _forward(self) -> Outcome:
        entry = self._now
        if entry.state in UNTOUCHED:
            try:
                self._empty()
                self._users_gone()
            except Fenced:
                raise
            except GpusmithError as error:
                return self._release(str(error))
        try:
            if not (self._now.state is State.VALIDATING and self.change.is_there(self.target)):
                self._write(state=State.CHANGING, attempt=self._now.attempt + 1)
                self._swap(self.target)
                self._write(state=State.LOADED)
            self._compare()
            self._write(state=State.VALIDATING)
            self._serve(self.target)
        except InUse as error:
            if self.change.is_there(self.origin):
                self._do(lambda: self.change.start(self.origin, self._now.stopped))
                self._compare()
                return self._release(str(error))
            # Whoever keeps it from being changed is not the version's doing.
            self._write(attempt=self._now.attempt - 1)
            raise
        except ChangeFailed as error:
            return self._back(str(error))
        self._write(state=State.DONE, reason="", uncordon=True, others=self.change.remembered(self._now))
        return Outcome(
            self.change.words.done,
            "" if self._now.cordoned else "somebody else cordoned it before: it stays cordoned",
        )

    def _empty(self) -> None:
        """No pod holds a GPU, and none of our operands runs."""
        if self._now.state is State.ADMITTED:
            self._write(state=State.DRAINING)
        if self.evicts:
            # Pods that go for nothing help nobody: a process without a pod keeps the node as it is.
            self._wait(
                f"no process without a pod to use {self.change.words.subject}",
                self._strangers,
                self.times.users_s,
            )
        self._wait("no pod to hold a GPU", self._pods_that_hold, self.times.drain_s)
        self._pause()
        self._write(state=State.QUIET)
        # Who tolerates everything may have come meanwhile.
        self._wait("no pod to hold a GPU", self._pods_that_hold, 0)

    def _pods_that_hold(self) -> Sequence[str]:
        node = self.cluster.node()
        if not is_cordoned(node):
            raise GiveUp(f"Somebody uncordoned node '{self.name}' meanwhile.")
        if ledgers.is_held(node):
            raise GiveUp(f"Node '{self.name}' carries '{HOLD}'.")
        return self.cluster.holders()

    def _strangers(self) -> Sequence[str]:
        return self.change.users(self.units, of_pods=False)

    def _users_gone(self) -> None:
        self._wait(
            f"nobody to use {self.change.words.subject}",
            lambda: self.change.users(self.units),
            self.times.users_s,
        )

    # --- back ----------------------------------------------------------------------------------------------------

    def _back(self, reason: str) -> Outcome:
        origin = self._now.origin
        self._cordoned_still()
        self._write(state=State.ROLLING_BACK, reason=reason)
        self.say(State.ROLLING_BACK, reason)
        self._do(lambda: self.cluster.unproved(reason))
        try:
            self._swap(origin)
            self._compare()
            self._serve(origin)
        except ChangeFailed as error:
            words = f"{reason} And the version before, {origin}: {error}"
            self._write(state=State.STUCK, reason=words)
            return Outcome(Result.STUCK, words)
        self._write(state=State.ROLLED_BACK, uncordon=True)
        return Outcome(Result.ROLLED_BACK, reason)

    def _release(self, reason: str) -> Outcome:
        """Give the node back as it was."""
        self.say(State.RELEASED, reason)
        if self._now.paused:
            self._do(lambda: self.cluster.operands(OPERANDS_ON))
        self._write(state=State.RELEASED, reason=reason, paused=False, uncordon=True)
        return Outcome(Result.RELEASED, reason)

    # --- both ways -----------------------------------------------------------------------------------------------

    def _swap(self, version: str) -> None:
        """Another version; nothing is stopped that is that version already."""
        self._cordoned_still()
        if not self.change.is_there(version):
            self._pause()
            self._wait("no pod to hold a GPU", self.cluster.holders, self.times.operands_s)
            if tuple(self.units) != self._now.stopped:
                self._write(stopped=tuple(self.units))
            self._do(lambda: self.change.stop(self._now.stopped), self.change.words.stop)
        self._do(lambda: self.change.apply(version), f"{self.change.words.apply} {version}")
        self._do(
            lambda: self.change.start(version, self._now.stopped), f"{self.change.words.start} {version}"
        )

    def _compare(self) -> None:
        self._do(lambda: self.change.compare(self._now.before), "comparing the GPUs with what they were")

    def _serve(self, version: str) -> None:
        """Operands on, and the suite."""
        self._cordoned_still()
        self._do(lambda: self.cluster.operands(OPERANDS_ON), "putting the operands on again")
        self._write(paused=False)
        wanted = self._now.gpus

        def missing() -> Sequence[str]:
            offered = self.cluster.allocatable()
            return [] if offered >= wanted else [f"{offered} of {wanted}"]

        try:
            self._wait("its GPUs to be offered", missing, self.times.operands_s)
        except WaitTimeout as error:
            raise ChangeFailed(error.message, error.hint) from error

        def stale() -> Sequence[str]:
            return self.change.stale(self.cluster.node(), version)

        # It may come late, as after a restart of the API server, and says nothing of whether the version works.
        self._wait(f"{self.change.words.label} {version}", stale, self.times.operands_s)
        self._do(lambda: self.change.prove(version), f"validating {version}")

    def _cordoned_still(self) -> None:
        """Nobody's pods come before the node is validated, even if somebody uncordoned it."""
        if not is_cordoned(self.cluster.node()):
            self.say(self._now.state, "somebody uncordoned it meanwhile; cordoning it until it is validated")
            self._write(cordon=True, cordoned=True)

    def _pause(self) -> None:
        """Our operands off the node."""
        if not self._now.paused:
            self._write(paused=True)
        self._do(lambda: self.cluster.operands(OPERANDS_PAUSED), "taking the operands off")
        self._wait("the operands' pods to be gone", self.cluster.operand_pods, self.times.operands_s)
        # Kubelet tells a while later. What the Node offers after that is the next plugin's, and no leftover of this one.
        self._wait("its GPUs to be withdrawn", self._offered, self.times.operands_s)

    def _offered(self) -> Sequence[str]:
        count = self.cluster.allocatable()
        return [f"{count} offered"] if count else []

    # --- small steps ---------------------------------------------------------------------------------------------

    @property
    def _now(self) -> Ledger:
        assert self._entry is not None
        return self._entry

    def _do(self, effect: Callable[[], Any], words: str = "") -> None:
        self.fence()
        if words:
            self.say(self._entry.state if self._entry else "preparing", words)
        effect()

    def _wait(self, what: str, left: Callable[[], Sequence[str]], seconds: float) -> None:
        said: list[str] = []

        def look() -> Done[None] | NotYet:
            self.fence()
            found = list(left())
            if found and found != said:
                said[:] = found
                self.say(self._now.state, f"waiting for {what}: {', '.join(found)}")
            return NotYet(", ".join(found)) if found else Done(None)

        wait_until(f"{what} on node '{self.name}'", look, Deadline(seconds, self.clock), TICK_S, self.sleep)

    def _write(
        self,
        state: State | None = None,
        uncordon: bool = False,
        cordon: bool = False,
        others: Mapping[str, str | None] | None = None,
        **other: Any,
    ) -> None:
        """Write the ledger, and cordon or uncordon in the same patch."""
        new = replace(self._now, **other)
        if state is not None and state is not new.state:
            new = replace(new, state=state, since=ledgers.now())
        for left in reversed(range(TRIES)):
            self.fence()
            node = self.cluster.node()
            self._refuse_others(node)
            change = True if cordon else False if uncordon and new.cordoned else None
            try:
                self.cluster.write(ledgers.patch(node, new, change, others))
                break
            except ApiRefused as error:
                if error.status != CONFLICT or not left:
                    raise
        self._entry = new
        if state is not None:
            self.say(state, new.reason)

    def _refuse_others(self, node: Node) -> None:
        """Only the run that holds the ledger goes on."""
        there = ledgers.read(node)
        if there is None or there.run not in (self._now.run, self.run):
            raise Fenced(
                f"The ledger of node '{self.name}' is of another run now ({there.run if there else 'it is gone'}).",
                "Look at that run.",
            )

    def _interrupted(self, error: GpusmithError) -> Outcome:
        """Trouble that says nothing about a version: the node stays as it is, and the next run goes on."""
        if self._entry is None:
            return Outcome(Result.UNTOUCHED, str(error))
        with contextlib.suppress(GpusmithError):
            self._cordoned_still()
        return Outcome(Result.UNFINISHED, f"{error} (state '{self._entry.state}')")
