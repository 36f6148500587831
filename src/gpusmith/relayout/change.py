"""The change of a node's layout: a label, by which the operands of one layout leave the node and those of another come.

GPUs that MIG divides are divided on the machine while no operand runs there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpusmith.change.ledger import Ledger
from gpusmith.change.node_object import NodeObject
from gpusmith.change.outcome import Result
from gpusmith.change.protocol import ChangeFailed, InUse, Words
from gpusmith.cluster import stamps
from gpusmith.data.operands import FEATURE_DISCOVERY
from gpusmith.errors import GpusmithError, ToolError
from gpusmith.expect import mig
from gpusmith.names import LAYOUT_CHANGE, LAYOUT_LABEL
from gpusmith.suite.maintenance import Maintenance
from gpusmith.upgrade.proof import PRECHECK_TIERS, Validation, failed
from gpusmith.wanted import layouts
from gpusmith.wanted.layouts import Layout
from gpusmith.wanted.node import NodeWanted

WORDS = Words(
    name=LAYOUT_CHANGE,
    subject="its GPUs",
    prepare="looking for the operands of",
    stop="",
    apply="dividing the GPUs, and setting the label, of",
    start="waiting for",
    label="the labels of feature discovery for",
    done=Result.CHANGED,
)
NOT_OF_LAYOUT = frozenset({"workloads.network", "cluster.labels"})
"""Checks of a node that no layout can be blamed for: it does not go back over them."""
CURED = frozenset(
    {
        "nodes.gpu-layout",
        "nodes.mps",
        "nodes.cdi",
        "cluster.gpu-layout",
        "cluster.gpu-capacity",
        "cluster.labels",
    }
)
"""Checks that may fail for what a change puts right: a label, a GPU that somebody divided in another way, MPS or what it left."""

Divide = Callable[[Mapping[str, Any], bool], Mapping[str, Any]]
"""Runs the module gpu_partitions on the machine: gets its options, and whether it is only to look. A failure has `failed`."""


def read(version: str) -> Layout:
    """A layout by what ledgers call it.

    Raises:
        GpusmithError: this release knows none of that name.
    """
    found = layouts.named(version)
    if found is None:
        raise GpusmithError(f"'{version}' is no layout of this release.", "Use the release that wrote it.")
    return found


@dataclass
class LayoutChange:
    """The layout of one node.

    Attributes:
        host: its name in the inventory.
        node: its Node object.
        run: ID of the run.
        divide: has the GPUs of its machine divided.
        used: who has a GPU open there, in words; arguments as of `Change.users`.
        by_mig: whether the change is from or to MIG.
        wanted: what the inventory says of the node.
        validation: how the suite is run.
        facts: what a stamp is for, of the machine as it is.
    """

    host: str
    node: NodeObject
    run: str
    divide: Divide
    used: Callable[[Sequence[str], bool], Sequence[str]]
    by_mig: bool
    wanted: NodeWanted
    validation: Validation
    facts: Mapping[str, Any]
    words: Words = WORDS

    def prepare(self, version: str) -> None:
        """Look whether a device plugin of the layout is there: nobody would serve the node."""
        self.node.must_have_operands(read(version))

    def precheck(self, version: str) -> None:
        """Refuse a node that is broken before anything is done to it."""
        results = self.validation.run("before", self.host, Maintenance(layout=version), PRECHECK_TIERS)
        if bad := failed(results, self.host, CURED):
            raise GpusmithError(
                f"Node '{self.node.name}' is broken before anything was done to it: {bad}",
                f"Repair it first, see {self.validation.report_dir / 'before'}.",
            )

    def is_there(self, version: str) -> bool:
        """Whether the node's label says a layout, and its GPUs are divided so."""
        layout = read(version)
        return (
            self.node.label(LAYOUT_LABEL) == layout.label and not self._divided(layout, look=True)["changed"]
        )

    def users(self, stopped: Sequence[str], of_pods: bool = True) -> Sequence[str]:
        """Programs that have GPUs open, which keep MIG from being switched; shares by time-slicing are no matter to them."""
        return self.used(stopped, of_pods) if self.by_mig else ()

    def stop(self, units: Sequence[str]) -> None:
        """The operands are off already."""

    def apply(self, version: str) -> None:
        """Have the GPUs divided, and set the label, or take it off.

        Raises:
            InUse: a process that is no pod's uses a GPU.
        """
        layout = read(version)
        self._divided(layout)
        self.node.set_label(LAYOUT_LABEL, layout.label)

    def start(self, version: str, units: Sequence[str]) -> None:
        """The operands come with their own label."""

    def snapshot(self, earlier: Mapping[str, Any] | None = None) -> Mapping[str, Any]:  # noqa: ARG002 - GPUs stay as they are
        """Nothing of the GPUs themselves changes."""
        return {}

    def compare(self, before: Mapping[str, Any]) -> None:
        """As above."""

    def prove(self, version: str) -> None:
        """Run the whole suite on the node, and stamp it."""
        results = self.validation.run(version, self.host, Maintenance(self.run, layout=version))
        proof = stamps.judge(results, self.host)
        put = stamps.put_outcome(
            self.node.cluster,
            self.node.name,
            proof,
            self.facts,
            check=False,
            conditions=self.wanted.validation.node_condition,
        )
        if put.proved and proof.problem is None:
            return
        where = f"See {self.validation.report_dir / version}."
        raise (ChangeFailed if failed(results, self.host, NOT_OF_LAYOUT) else ToolError)(put.message, where)

    def stale(self, node: Mapping[str, Any], version: str) -> Sequence[str]:
        """What feature discovery says of another layout, where it is ours."""
        if FEATURE_DISCOVERY not in self.wanted.operands.ours:
            return []
        return layouts.contradictions(node["metadata"].get("labels") or {}, read(version))

    def _divided(self, layout: Layout, look: bool = False) -> Mapping[str, Any]:
        """What is done, or would be, for the GPUs to be divided as a layout has it."""
        file = mig.wanted(self.wanted, layout).file
        asked = {name: getattr(file, name) for name in ("profile", "nvml", "starts")} if file else {}
        more = {"ignored": list(self.wanted.gpus_ignored), "mps": layout.mps}
        answer = self.divide({"layout": asked, **more}, look)
        if answer.get("failed"):
            kind = InUse if answer.get("in_use") else ChangeFailed
            raise kind(
                f"The GPUs of '{self.node.name}' cannot be divided into {layout.words}: {answer.get('msg')}"
            )
        return answer

    def remembered(self, entry: Ledger) -> Mapping[str, str | None]:  # noqa: ARG002 - the inventory says it
        """Nothing: the way back is a change of the inventory."""
        return {}
