"""The change of a node's layout: a label, by which the operands of one layout leave the node and those of another come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpusmith.change.ledger import Ledger
from gpusmith.change.node_object import NodeObject
from gpusmith.change.outcome import Result
from gpusmith.change.protocol import ChangeFailed, Words
from gpusmith.cluster import stamps
from gpusmith.errors import GpusmithError, ToolError
from gpusmith.names import LAYOUT_CHANGE, LAYOUT_LABEL
from gpusmith.suite.maintenance import Maintenance
from gpusmith.upgrade.proof import PRECHECK_TIERS, Validation, failed
from gpusmith.wanted import layouts
from gpusmith.wanted.layouts import Layout

WORDS = Words(
    name=LAYOUT_CHANGE,
    subject="its GPUs",
    prepare="looking for the operands of",
    stop="",
    apply="setting the label of",
    start="waiting for",
    label="the labels of feature discovery for",
    done=Result.CHANGED,
)
NOT_OF_LAYOUT = frozenset({"workloads.network", "cluster.labels"})
"""Checks of a node that no layout can be blamed for: it does not go back over them."""


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
    """The layout of one node; its machine is only looked at, by the suite.

    Attributes:
        host: its name in the inventory.
        node: its Node object.
        run: ID of the run.
        validation: how the suite is run.
        facts: what a stamp is for, of the machine as it is.
        condition: whether the Node says in a condition that it is validated.
        discovered: whether feature discovery is ours, so that its labels follow.
    """

    host: str
    node: NodeObject
    run: str
    validation: Validation
    facts: Mapping[str, Any]
    condition: bool
    discovered: bool
    words: Words = WORDS

    def prepare(self, version: str) -> None:
        """Look whether a device plugin of the layout is there: nobody would serve the node."""
        self.node.must_have_operands(read(version))

    def precheck(self, version: str) -> None:
        """Refuse a node that is broken before anything is done to it."""
        results = self.validation.run("before", self.host, Maintenance(layout=version), PRECHECK_TIERS)
        if bad := failed(results):
            raise GpusmithError(
                f"Node '{self.node.name}' is broken before anything was done to it: {bad}",
                f"Repair it first, see {self.validation.report_dir / 'before'}.",
            )

    def is_there(self, version: str) -> bool:
        """Whether the node's label says a layout."""
        return self.node.label(LAYOUT_LABEL) == read(version).label

    def users(self, stopped: Sequence[str], of_pods: bool = True) -> Sequence[str]:  # noqa: ARG002 - pods that hold GPUs are all
        """Nobody but pods that hold GPUs, for whom every change waits."""
        return ()

    def stop(self, units: Sequence[str]) -> None:
        """The operands are off already."""

    def apply(self, version: str) -> None:
        """Set the label, or take it off."""
        self.node.set_label(LAYOUT_LABEL, read(version).label)

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
            self.node.cluster, self.node.name, proof, self.facts, check=False, conditions=self.condition
        )
        if put.proved and proof.problem is None:
            return
        where = f"See {self.validation.report_dir / version}."
        raise (ChangeFailed if failed(results, self.host, NOT_OF_LAYOUT) else ToolError)(put.message, where)

    def stale(self, node: Mapping[str, Any], version: str) -> Sequence[str]:
        """Feature discovery's number of shares, where it is of another layout."""
        told = layouts.told(node["metadata"].get("labels") or {})
        return [f"{told} shares of a GPU"] if self.discovered and told != read(version).shares else []

    def remembered(self, entry: Ledger) -> Mapping[str, str | None]:  # noqa: ARG002 - the inventory says it
        """Nothing: the way back is a change of the inventory."""
        return {}
