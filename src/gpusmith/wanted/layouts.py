"""How a node hands its GPUs out: whole, or each in parts. Its label says which, and operands of that layout serve it.

Shares by time-slicing are the device plugin's: it lists each GPU several times, and pods on one GPU take turns, without limits of
memory and without isolation of faults (k8s-device-plugin 0.19.0, 'Shared Access to GPUs' in README.md). Those by MPS are listed
alike; a control daemon of the layout lets pods compute at the same time, each with a part of memory and multiprocessors.
Instances by MIG are the GPU's own, made on the machine (gpusmith/partition), each with memory and compute units that no other
uses. By DRA, pods get whole GPUs by ResourceClaims, and NVIDIA's DRA driver serves the node instead of the device plugin.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpusmith.data import mig, models
from gpusmith.data.mig import Partitioning, Placement
from gpusmith.data.operands import DEVICE_PLUGIN, DRA_DRIVER, FEATURE_DISCOVERY, MPS_DAEMON
from gpusmith.errors import InputError
from gpusmith.names import (
    DEVICE_CLASS,
    GPU_RESOURCE,
    LAYOUT_LABEL,
    MIG_RESOURCES,
    REPLICAS_LABEL,
    SHARE_RESOURCE,
    SHARING_LABEL,
    STRATEGY_LABEL,
)
from gpusmith.wanted.offers import Offer

NONE, TIME_SLICING, MPS, MIG, DRA = "none", "time-slicing", "mps", "mig", "dra"
FEWEST, MOST = 2, 48
"""Shares of a GPU. By time-slicing the plugin has no bound; more pods than that on one GPU do no work. MPS takes no more."""
RESOURCES = (GPU_RESOURCE, SHARE_RESOURCE)
"""What layouts without MIG hand out, each by one of them."""
WHOLE_NAME = "whole"
OF_LAYOUTS = (DEVICE_PLUGIN, FEATURE_DISCOVERY, MPS_DAEMON)
LABEL = re.compile(rf"({TIME_SLICING}|{MPS})-(\d+)(-as-gpu)?")
MIG_LABEL = re.compile(rf"{MIG}-(\d)x(\d+g\.\d+gb(?:[.-]me)?)")
"""What the device plugin calls 1g.10gb+me is mig-1g.10gb.me, and 1g.24gb-me stays."""


Own = Mapping[str, Mapping[str, Any]]
"""Models of an inventory, by key."""


@dataclass(frozen=True)
class Layout:
    """How GPUs are handed out.

    Attributes:
        shares: pods that one GPU serves at the same time, a share or an instance each; 1 for whole GPUs.
        resource: that pods ask for; the device class of a claim where they get GPUs by claims.
        profile: of the instances that MIG divides each GPU into, all of one size; empty without MIG.
        mps: whether the pods of a GPU are clients of MPS.
    """

    shares: int = 1
    resource: str = GPU_RESOURCE
    profile: str = ""
    mps: bool = False

    @property
    def shared(self) -> bool:
        """Whether pods get parts of GPUs."""
        return self.shares > 1 or bool(self.profile)

    @property
    def by_claims(self) -> bool:
        """Whether pods get GPUs by ResourceClaims, from NVIDIA's DRA driver."""
        return self.resource == DEVICE_CLASS

    @property
    def label(self) -> str:
        """Value of a node's label, and end of the names of operands that serve it; empty for whole GPUs by the device plugin."""
        if self.by_claims:
            return DRA
        if self.profile:
            return f"{MIG}-{self.shares}x{_in_names(self.profile)}"
        if not self.shared:
            return ""
        return f"{self.sharing}-{self.shares}{'-as-gpu' if self.resource == GPU_RESOURCE else ''}"

    @property
    def name(self) -> str:
        """The same where an empty one says nothing: in ledgers, stamps and options."""
        return self.label or WHOLE_NAME

    @property
    def sharing(self) -> str:
        """Value of the inventory's 'gpusmith_gpu_sharing'."""
        if self.by_claims:
            return DRA
        if self.profile:
            return MIG
        if self.mps:
            return MPS
        return TIME_SLICING if self.shared else NONE

    @property
    def strategy(self) -> str:
        """The device plugin's for MIG: 'mixed' calls instances by their profiles."""
        return "mixed" if self.profile else NONE

    @property
    def things(self) -> str:
        """What pods are given, in words."""
        if self.profile:
            return "MIG instances"
        return "shares of GPUs" if self.shared else "GPUs"

    @property
    def part(self) -> str:
        """What one pod is given, in words."""
        if self.profile:
            return "MIG instance"
        return "share" if self.shared else "GPU"

    @property
    def replicas(self) -> int:
        """Into how many shares the device plugin divides what it finds, as feature discovery counts them."""
        return 1 if self.profile else self.shares

    @property
    def words(self) -> str:
        """For sentences."""
        if self.profile:
            return f"{self.shares} MIG instances {self.profile} of each GPU"
        if self.by_claims:
            return "whole GPUs by ResourceClaims"
        by = " by MPS" if self.mps else ""
        return f"{self.shares} shares of each GPU{by} as '{self.resource}'" if self.shared else "whole GPUs"

    def offers(self, gpus: int) -> tuple[Offer, ...]:
        """What a node hands out.

        Args:
            gpus: how many it has; 0 if nothing tells.
        """
        return (Offer(self.resource, gpus * self.shares, gpus),)


WHOLE = Layout()
CLAIMS = Layout(resource=DEVICE_CLASS)
"""Whole GPUs by DRA."""


def instances(profile: str, shares: int) -> Layout:
    """So many instances of a profile on each GPU."""
    return Layout(shares, MIG_RESOURCES + _in_names(profile), profile)


def asked(sharing: str, shares: int, resource: str) -> Layout:
    """A layout by the inventory's variables 'gpusmith_gpu_sharing', '_shares' and '_share_resource'."""
    if sharing == DRA:
        return CLAIMS
    return Layout(shares, resource, mps=sharing == MPS) if sharing in (TIME_SLICING, MPS) else WHOLE


def by_mig(profile: str, model: str, own: Own) -> Layout:
    """A layout by 'gpusmith_gpu_mig_profile': each GPU gets as many instances as it can have.

    Args:
        profile: name of it.
        model: key of the GPUs' model.
        own: models of the inventory.

    Raises:
        InputError: GPUs of the model do not have the profile, or nothing is known of it.
    """
    return instances(profile, len(mig.place([mig.ALL + profile], _partitioning(model, own))))


def placements(layout: Layout, model: str, own: Own) -> tuple[Placement, ...]:
    """Where the instances of a layout are on each GPU; none without MIG. Arguments and errors are those of `by_mig`."""
    if not layout.profile:
        return ()
    return mig.place([layout.profile] * layout.shares, _partitioning(model, own))


def _partitioning(model: str, own: Own) -> Partitioning:
    row = models.joined(models.load(), own, model).get(model)
    gpu = mig.of_model(row) if row else None
    if gpu is None:
        raise InputError(
            f"No MIG profiles are known of GPU model '{model}'.",
            "Set 'gpusmith_gpu_model' to one that has a 'mig_table' in data/gpus.yml, or do not use MIG.",
        )
    return gpu


def _in_names(profile: str) -> str:
    """A profile where '+' cannot stand: the device plugin writes a dot."""
    return profile.replace("+", ".")


def of_label(value: str) -> Layout | None:
    """A layout by its label; None if it is none of ours."""
    if value in ("", DRA):
        return CLAIMS if value else WHOLE
    if matched := MIG_LABEL.fullmatch(value):
        return instances(re.sub(r"\.(?=me$)", "+", matched[2]), int(matched[1]))
    matched = LABEL.fullmatch(value)
    if matched is None or not FEWEST <= int(matched[2]) <= MOST:
        return None
    return asked(matched[1], int(matched[2]), GPU_RESOURCE if matched[3] else SHARE_RESOURCE)


def named(name: str) -> Layout | None:
    """A layout by its name; None if it is none of ours."""
    return WHOLE if name == WHOLE_NAME else of_label(name) if name else None


def of_labels(labels: Mapping[str, str]) -> Layout:
    """The layout that a Node has: operands go by its label alone, and by a value that is none of ours no plugin serves it."""
    return of_label(labels.get(LAYOUT_LABEL, "")) or WHOLE


def of_node(node: Mapping[str, Any]) -> Layout:
    """The same, of a Node object."""
    return of_labels(node["metadata"].get("labels") or {})


def hands_out(resource: str) -> bool:
    """Whether a layout may hand out a resource."""
    return resource in RESOURCES or resource.startswith(MIG_RESOURCES)


def told(labels: Mapping[str, str]) -> int:
    """Shares of a GPU by feature discovery, whoever made them; 1 if it tells of none."""
    shares = labels.get(REPLICAS_LABEL, "1")
    return max(1, int(shares)) if shares.isdecimal() else 1


def other_sharing(labels: Mapping[str, str], layout: Layout) -> str:
    """How GPUs are shared by feature discovery, if that is another way than a layout's; empty if it does not say."""
    wanted = layout.sharing if layout.sharing in (TIME_SLICING, MPS) else NONE
    said = labels.get(SHARING_LABEL, wanted)
    return said if said != wanted else ""


def contradictions(labels: Mapping[str, str], layout: Layout) -> list[str]:
    """What our feature discovery says that is not so on nodes of a layout, in words."""
    shares, strategy = told(labels), labels.get(STRATEGY_LABEL, NONE)
    found = [f"{shares} shares of a GPU"] if shares != layout.replicas else []
    found += [f"MIG strategy '{strategy}'"] if strategy != layout.strategy else []
    found += [f"sharing by '{by}'"] if (by := other_sharing(labels, layout)) else []
    count = f"{layout.resource}.count"
    return [*found, *([f"no label '{count}'"] if layout.profile and count not in labels else [])]


def daemon_set(name: str, layout: Layout) -> str:
    """The DaemonSet that runs one of our operands on nodes of a layout; only what hands out GPUs has one for each."""
    if layout.by_claims and name == DEVICE_PLUGIN:
        return DRA_DRIVER
    return f"{name}-{layout.label}" if layout.label and name in OF_LAYOUTS else name


def operand(name: str, layout: Layout) -> str:
    """What runs on nodes of a layout in the place of one of our operands, by 'app.kubernetes.io/name' of its pods."""
    return DRA_DRIVER if layout.by_claims and name == DEVICE_PLUGIN else name


def serves(daemon_set: str, component: str) -> bool:
    """Whether a DaemonSet is called as one of ours that runs a component: for whole GPUs, or for a layout."""
    name, dash, layout = daemon_set.partition(f"{component}-")
    if daemon_set == component:
        return True
    return bool(not name and dash and layout and of_label(layout))


def in_use(layouts: Iterable[Layout]) -> list[Layout]:
    """Those that need operands of their own, each once."""
    return sorted({row for row in layouts if row.label}, key=lambda row: row.label)
