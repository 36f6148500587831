"""How a node hands its GPUs out: whole, or each in shares. Its label says which, and operands of that layout serve it.

Shares by time-slicing are the device plugin's: it lists each GPU several times, and pods on one GPU take turns, without limits of
memory and without isolation of faults (k8s-device-plugin 0.19.0, 'Shared Access to GPUs' in README.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpusmith.data.operands import DEVICE_PLUGIN, FEATURE_DISCOVERY
from gpusmith.names import GPU_RESOURCE, LAYOUT_LABEL, REPLICAS_LABEL, SHARE_RESOURCE
from gpusmith.wanted.offers import Offer

NONE, TIME_SLICING = "none", "time-slicing"
FEWEST, MOST = 2, 48
"""Shares of a GPU. The plugin has no bound; more pods than that on one GPU do no work."""
RESOURCES = (GPU_RESOURCE, SHARE_RESOURCE)
"""What layouts hand out, each by one of them."""
WHOLE_NAME = "whole"
OF_LAYOUTS = (DEVICE_PLUGIN, FEATURE_DISCOVERY)
LABEL = re.compile(rf"{TIME_SLICING}-(\d+)(-as-gpu)?")


@dataclass(frozen=True)
class Layout:
    """How GPUs are handed out.

    Attributes:
        shares: pods that one GPU serves at the same time, a share each; 1 for whole GPUs.
        resource: that pods ask for.
    """

    shares: int = 1
    resource: str = GPU_RESOURCE

    @property
    def shared(self) -> bool:
        """Whether several pods get one GPU."""
        return self.shares > 1

    @property
    def label(self) -> str:
        """Value of a node's label, and end of the names of the operands that serve it; empty for whole GPUs."""
        if not self.shared:
            return ""
        return f"{TIME_SLICING}-{self.shares}{'-as-gpu' if self.resource == GPU_RESOURCE else ''}"

    @property
    def name(self) -> str:
        """The same where an empty one says nothing: in ledgers, stamps and options."""
        return self.label or WHOLE_NAME

    @property
    def things(self) -> str:
        """What pods are given, in words."""
        return "shares of GPUs" if self.shared else "GPUs"

    @property
    def words(self) -> str:
        """For sentences."""
        return f"{self.shares} shares of each GPU as '{self.resource}'" if self.shared else "whole GPUs"

    def offers(self, gpus: int) -> tuple[Offer, ...]:
        """What a node hands out.

        Args:
            gpus: how many it has; 0 if nothing tells.
        """
        return (Offer(self.resource, gpus * self.shares, gpus),)


WHOLE = Layout()


def asked(sharing: str, shares: int, resource: str) -> Layout:
    """A layout by the inventory's variables 'gpusmith_gpu_sharing', '_shares' and '_share_resource'."""
    return Layout(shares, resource) if sharing == TIME_SLICING else WHOLE


def of_label(value: str) -> Layout | None:
    """A layout by its label; None if it is none of ours."""
    if not value:
        return WHOLE
    matched = LABEL.fullmatch(value)
    if matched is None or not FEWEST <= int(matched[1]) <= MOST:
        return None
    return Layout(int(matched[1]), GPU_RESOURCE if matched[2] else SHARE_RESOURCE)


def named(name: str) -> Layout | None:
    """A layout by its name; None if it is none of ours."""
    return WHOLE if name == WHOLE_NAME else of_label(name) if name else None


def of_labels(labels: Mapping[str, str]) -> Layout:
    """The layout that a Node has: operands go by its label alone, and by a value that is none of ours no plugin serves it."""
    return of_label(labels.get(LAYOUT_LABEL, "")) or WHOLE


def of_node(node: Mapping[str, Any]) -> Layout:
    """The same, of a Node object."""
    return of_labels(node["metadata"].get("labels") or {})


def told(labels: Mapping[str, str]) -> int:
    """Shares of a GPU by feature discovery, whoever made them; 1 if it tells of none."""
    shares = labels.get(REPLICAS_LABEL, "1")
    return max(1, int(shares)) if shares.isdecimal() else 1


def daemon_set(name: str, layout: Layout) -> str:
    """The DaemonSet that runs one of our operands on nodes of a layout; only what divides GPUs has one for each."""
    return f"{name}-{layout.label}" if layout.shared and name in OF_LAYOUTS else name


def serves(daemon_set: str, component: str) -> bool:
    """Whether a DaemonSet is called as one of ours that runs a component: for whole GPUs, or for a layout."""
    name, dash, layout = daemon_set.partition(f"{component}-")
    if daemon_set == component:
        return True
    return bool(not name and dash and layout and of_label(layout))


def in_use(layouts: Iterable[Layout]) -> list[Layout]:
    """Those that need operands of their own, each once."""
    return sorted({row for row in layouts if row.shared}, key=lambda row: row.label)
