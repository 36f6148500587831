"""What a change does to a machine and in the cluster, one call each: tests replace both and kill the run around each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gpusmith.change.ledger import Ledger
from gpusmith.change.outcome import Result
from gpusmith.errors import GpusmithError

Node = Mapping[str, Any]


class ChangeFailed(GpusmithError):  # noqa: N818 - it is a verdict
    """The version does not work on this machine; only this is rolled back."""


class InUse(GpusmithError):  # noqa: N818
    """Somebody uses what is changed."""


class Fenced(GpusmithError):  # noqa: N818
    """This run must not act any more: it was killed, or another one has taken its place."""


class Halted(GpusmithError):  # noqa: N818
    """No further node is begun."""


@dataclass(frozen=True)
class Words:
    """How ledgers, journals and errors speak of a change; a version follows all but the first two, `stop` and `done`.

    Attributes:
        name: of the change.
        subject: what processes use until it is changed.
        prepare: what `Change.prepare` does, and so on.
        stop: likewise.
        apply: likewise.
        start: likewise.
        label: what `Change.stale` reads.
        done: what became of a node that has the version.
    """

    name: str
    subject: str
    prepare: str
    stop: str
    apply: str
    start: str
    label: str
    done: Result = Result.UPGRADED


class Change(Protocol):
    """What is changed on one machine, from one version to another. Every call can be repeated after it was cut short.

    All of them raise GpusmithError for trouble that says nothing about a version, such as a machine that does not answer.
    """

    words: Words

    def prepare(self, version: str) -> None:
        """Have all that a version takes on the machine: from there on nothing is to be had."""

    def precheck(self, version: str) -> None:
        """Refuse a machine that is broken before anything is done to it."""

    def is_there(self, version: str) -> bool:
        """Whether the machine runs a version."""

    def users(self, stopped: Sequence[str], of_pods: bool = True) -> Sequence[str]:
        """Who uses it, in words; services that the change stops do not count, nor those named, nor pods if not wanted."""

    def stop(self, units: Sequence[str]) -> None:
        """Stop its services and these units, and keep it from being started again.

        Raises:
            InUse: somebody uses it; all is as it was.
        """

    def apply(self, version: str) -> None:
        """Replace it by what was prepared.

        Raises:
            ChangeFailed: that cannot be done.
        """

    def start(self, version: str, units: Sequence[str]) -> None:
        """Start it, its services and these units, and wait until it is as wanted.

        Raises:
            InUse: it takes a reboot, and somebody uses the version before, which still runs.
            ChangeFailed: it is not.
        """

    def snapshot(self, earlier: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """What the GPUs are now, for compare(); in a rollback with what they were before the version that goes."""

    def compare(self, before: Mapping[str, Any]) -> None:
        """Put back what the change forgets, and compare the GPUs with what they were.

        Raises:
            ChangeFailed: they are others now.
        """

    def prove(self, version: str) -> None:
        """Run the whole suite on the node, and stamp it.

        Raises:
            ChangeFailed: it failed.
        """

    def stale(self, node: Node, version: str) -> Sequence[str]:
        """What a Node object still says of another version, in words."""

    def remembered(self, entry: Ledger) -> Mapping[str, str | None]:
        """Annotations by which a node whose change is done can go back; None removes one."""


class InCluster(Protocol):
    """Effects on one Node object. All of them raise ToolError if the cluster does not answer."""

    def node(self) -> Node:
        """The Node as it is now."""

    def write(self, body: Mapping[str, Any]) -> None:
        """Patch it, refused with ApiRefused (409) if it was changed since it was read."""

    def would_admit(self, entry: Ledger) -> str:
        """Why admit() would not admit it now; empty if it would. Nothing is written.

        Raises:
            Halted: it will not be admitted in this run.
        """

    def admit(self, entry: Ledger) -> str:
        """Cordon it and write its ledger, if the budget allows; else why not.

        Raises:
            Halted: it will not be admitted in this run.
        """

    def holders(self) -> Sequence[str]:
        """Pods that hold GPUs of it, in words; pods that may be evicted are asked to go."""

    def operands(self, value: str) -> None:
        """Set the label by which our operands come and go."""

    def unproved(self, why: str) -> None:
        """Take back, where the Node says it in a condition, that it is proved."""

    def operand_pods(self) -> Sequence[str]:
        """Pods of our operands on it, in words."""

    def allocatable(self) -> int:
        """GPUs that it offers to the scheduler."""
