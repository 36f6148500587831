"""What is wrong with a system under test, and what cures it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Cure(StrEnum):
    """What takes a problem away. Roles go by it; people read the next step."""

    PACKAGES = "packages"
    """Packages are installed in the wanted version."""
    HOLD = "hold"
    """Packages are held at their version."""
    FILES = "files"
    """Files of ours are written again."""
    LOAD = "load"
    """Kernel modules are loaded, and device nodes are made."""
    SERVICES = "services"
    """Services are enabled and started."""
    CONTAINERD = "containerd"
    """containerd's configuration is written, and containerd is restarted with it."""
    CDI = "cdi"
    """The CDI specification of the toolkit's role is made anew."""
    LINKS = "links"
    """The links in /dev/char are made."""
    HOST = "host"
    """Swap, kernel modules and kernel parameters are set, now and for the next boot."""
    KUBELET = "kubelet"
    """The kubelet's settings are written, and the kubelet is restarted with them."""
    JOIN = "join"
    """The machine joins its cluster."""
    LABELS = "labels"
    """Labels and taints of the Node object are set."""
    OPERANDS = "operands"
    """Operands and RuntimeClass are applied to the cluster."""
    PLUGIN = "plugin"
    """Our device plugin is started anew on the node, and writes its CDI specification."""
    WAIT = "wait"
    """It passes by itself while services start."""
    REBOOT = "reboot"
    """The machine is rebooted; site.yml asks for it, and never takes a serving node's GPUs away."""
    UPGRADE = "upgrade"
    """A serving node changes its driver, node after node."""
    PERSON = "person"
    """Nobody but a person can tell what is right."""


SITE = frozenset(
    {
        Cure.PACKAGES,
        Cure.HOLD,
        Cure.FILES,
        Cure.LOAD,
        Cure.SERVICES,
        Cure.CONTAINERD,
        Cure.CDI,
        Cure.LINKS,
        Cure.HOST,
        Cure.KUBELET,
        Cure.JOIN,
        Cure.LABELS,
        Cure.OPERANDS,
        Cure.PLUGIN,
    }
)
"""What site.yml performs. The next step of a problem names site.yml if its cure is one of these, and only then."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        cause: one sentence or more that name node, part and cause.
        next_step: what a person does next.
        evidence: what was seen, as plain JSON data.
        cure: what takes it away.
    """

    cause: str
    next_step: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    cure: Cure = Cure.PERSON
