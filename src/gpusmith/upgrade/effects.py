"""What an upgrade does to a machine and in the cluster, one call each: tests replace both and kill the run around each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from gpusmith.errors import GpusmithError
from gpusmith.upgrade.ledger import Ledger

Node = Mapping[str, Any]


class DriverFailed(GpusmithError):  # noqa: N818 - it is a verdict
    """The driver of that version does not work on this machine; only this is rolled back."""


class InUse(GpusmithError):  # noqa: N818
    """Somebody uses the driver."""


class Fenced(GpusmithError):  # noqa: N818
    """This run must not act any more: it was killed, or another one has taken its place."""


class Halted(GpusmithError):  # noqa: N818
    """No further node is begun."""


class OnMachine(Protocol):
    """Effects on one machine. Every call can be repeated after it was cut short.

    All of them raise GpusmithError for trouble that says nothing about a driver, such as a machine that does not answer.
    """

    def fetch(self, version: str) -> None:
        """Have all packages of a version in the machine's folder, with a manifest."""

    def precheck(self, version: str) -> None:
        """Refuse a machine that is broken before anything is done to it."""

    def runs(self, version: str) -> bool:
        """Whether module and packages are of a version."""

    def users(self, stopped: Sequence[str], of_pods: bool = True) -> Sequence[str]:
        """Who uses the driver, in words; services that an upgrade stops do not count, nor those named, nor pods if not wanted."""

    def unload(self, units: Sequence[str]) -> None:
        """Stop the driver's services and these units, keep the modules from being loaded again, unload them.

        Raises:
            InUse: somebody uses them; all is as it was.
        """

    def install(self, version: str) -> None:
        """Replace the packages by those of the folder, pinned and held.

        Raises:
            DriverFailed: they do not install.
        """

    def load(self, version: str, units: Sequence[str]) -> None:
        """Load the modules, start the driver's services and these units, and wait until the driver is as wanted.

        Raises:
            InUse: it takes a reboot, and somebody uses the module before, which is still loaded.
            DriverFailed: it is not.
        """

    def snapshot(self) -> Mapping[str, Any]:
        """What the GPUs are now, for compare()."""

    def compare(self, before: Mapping[str, Any]) -> None:
        """Put back what a reload of the driver forgets, and compare the GPUs with what they were.

        Raises:
            DriverFailed: they are others now.
        """

    def validate(self, version: str) -> None:
        """Run the whole suite on the node, and stamp it.

        Raises:
            DriverFailed: it failed.
        """


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

    def operand_pods(self) -> Sequence[str]:
        """Pods of our operands on it, in words."""

    def allocatable(self) -> int:
        """GPUs that it offers to the scheduler."""

    def described_driver(self) -> str:
        """The driver's version by the label of GPU feature discovery; empty if it has written none."""
