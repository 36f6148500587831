"""Node objects as typed facts. Whether a node is Ready is judged here, for everybody."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpusmith.cluster import dra, operands
from gpusmith.cluster.api import Object
from gpusmith.cluster.dra import NO_CLAIMS, Claims, DraDevice, Kind
from gpusmith.cluster.holders import Holder, finished, holders, quantity
from gpusmith.cluster.lists import Lists
from gpusmith.cluster.plugin_strategy import by_cdi
from gpusmith.cluster.tenants import Tenant, tenant_of
from gpusmith.data.operands import DEVICE_PLUGIN, FEATURE_DISCOVERY
from gpusmith.expect.identity import Told
from gpusmith.names import CONDITION, DEVICE_CLASS, GPU_RESOURCE, PRESENT_LABEL
from gpusmith.wanted import layouts
from gpusmith.wanted.layouts import Layout
from gpusmith.wanted.offers import Offer, Offers, gpus_of, is_gpu, strange

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
GOOD_WHEN_TRUE = ("Ready", "Healthy")
"""How names of conditions end that are well when true, such as AWS's AcceleratedHardwareReady."""
BAD_WHEN_TRUE = re.compile(
    r".*(Pressure|Problem|Unhealthy|Errors?)|NetworkUnavailable|KernelDeadlock|ReadonlyFilesystem|Frequent\w+|Corrupt\w+"
    r"|GPUMissing|NVLinkStatusInactive"
)
"""Names of those that are not: the kubelet's, and those of node-problem-detector as its authors and clouds configure it."""

PCI_LABEL = re.compile(
    rf"{re.escape(PRESENT_LABEL)}|feature\.node\.kubernetes\.io/pci-(03\d\d_)?10de\.present"
)
"""Labels of nodes with GPUs: feature discovery's, and by PCI, with the class of display devices or without any."""


@dataclass(frozen=True)
class Readiness:
    """What a Node object says of itself.

    Attributes:
        ready: its condition Ready is True.
        seen: 'Ready', or why not.
    """

    ready: bool
    seen: str


def readiness(node: Mapping[str, Any] | None) -> Readiness:
    """Whether a node is Ready; None is a node that the cluster does not have."""
    if node is None:
        return Readiness(False, "the cluster has no such node")
    for row in (node.get("status") or {}).get("conditions") or []:
        if row.get("type") == "Ready":
            ready = row.get("status") == "True"
            return Readiness(ready, "Ready" if ready else str(row.get("message") or "not Ready"))
    return Readiness(False, "not Ready yet")


def is_cordoned(node: Mapping[str, Any]) -> bool:
    """Whether a Node takes no new pods."""
    return bool((node.get("spec") or {}).get("unschedulable"))


def told_of(node: Mapping[str, Any]) -> Told:
    """What a Node says of the machine that it is of."""
    info = (node.get("status") or {}).get("nodeInfo") or {}
    return Told(
        machine_id=str(info.get("machineID") or ""),
        boot_id=str(info.get("bootID") or ""),
        system_uuid=str(info.get("systemUUID") or ""),
        ready=readiness(node).ready,
        heartbeat_unix=_heartbeat(node),
    )


def _heartbeat(node: Mapping[str, Any]) -> float | None:
    rows = (node.get("status") or {}).get("conditions") or []
    told = [
        str(row["lastHeartbeatTime"])
        for row in rows
        if row.get("type") == "Ready" and row.get("lastHeartbeatTime")
    ]
    return dt.datetime.fromisoformat(told[0]).timestamp() if told else None


def node_path(name: str) -> str:
    """Where the API server has a Node."""
    return f"{NODES}/{name}"


@dataclass(frozen=True)
class NodeView:
    """A Node object, and the pods on it that matter.

    Attributes:
        name: of the Node.
        ready: condition Ready is True.
        conditions: why not, or what presses it.
        unjudged: conditions that are true and of which nobody here knows whether that is good.
        unschedulable: cordoned.
        capacity: GPUs and parts of GPUs, by resource; 0 if the resource is there without any.
        allocatable: the same.
        labels: all.
        annotations: all.
        taints: all.
        holders: pods that hold GPUs, parts of some, or what may be a GPU.
        claimable: GPUs that drivers of Dynamic Resource Allocation offer on the node, or have given to its pods.
        tenants: all pods on the node that have not ended.
        system_pods: pods of the operands' namespace on the node.
        plugins: pods of NVIDIA's device plugin that are not of our DaemonSet, as namespace/name.
        plugin_owners: who set each of these up, in words.
        plugins_by_cdi: those of them that say that they hand out GPUs by CDI, for which they write a specification.
        discovered: whether a pod of GPU feature discovery runs there, whosever.
        told: which machine it is of, as its kubelet told.
        most_pods: that its kubelet takes; None if it does not say.
    """

    name: str
    ready: bool
    conditions: tuple[str, ...]
    unjudged: tuple[str, ...] = field(default=(), kw_only=True)
    unschedulable: bool
    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    taints: tuple[Mapping[str, str], ...]
    holders: tuple[Holder, ...] = ()
    claimable: tuple[DraDevice, ...] = ()
    tenants: tuple[Tenant, ...] = field(default=(), repr=False)
    system_pods: tuple[Object, ...] = field(default=(), repr=False)
    plugins: tuple[str, ...] = ()
    plugin_owners: tuple[str, ...] = ()
    plugins_by_cdi: tuple[str, ...] = ()
    discovered: bool = False
    told: Told = field(default_factory=Told)
    most_pods: int | None = None

    @property
    def layout(self) -> Layout:
        """How its GPUs are handed out, as far as that is gpusmith's doing."""
        return layouts.of_labels(self.labels)

    def offers(self, gpus: int) -> Offers:
        """What it hands out of so many GPUs."""
        return self.layout.offers(gpus)

    @property
    def claimants(self) -> tuple[Holder, ...]:
        """Those of its holders that hold something by ResourceClaims."""
        return tuple(holder for holder in self.holders if holder.devices)

    def free(self, offer: Offer) -> int:
        """How many of a resource a pod could still get; what pods hold by claims is none of the device plugin's."""
        held = sum(
            holder.claimed if self.layout.by_claims else holder.counts.get(offer.resource, 0)
            for holder in self.holders
        )
        return max(0, self.allocatable.get(offer.resource, 0) - held)

    def busy(self, offers: Offers) -> dict[str, int]:
        """GPUs that pods hold of its offers, and by claims, by 'namespace/pod'; where these are shares, so many shares."""
        if self.layout.shared:
            # Pods with one share each may be on one GPU, or on as many: nothing here tells.
            counted = {
                row.title: sum(row.counts.get(offer.resource, 0) for offer in offers)
                + row.claimed * self.layout.shares
                for row in self.holders
            }
        else:
            counted = {holder.title: holder.gpus(offers) for holder in self.holders}
        return {title: count for title, count in counted.items() if count}

    def divided(self, offers: Offers) -> str:
        """How GPUs are handed out in another way than these offers say, in words; empty if they are not."""
        parts = strange(self.capacity, offers)
        shares = layouts.told(self.labels)
        if parts:
            return f"offers {', '.join(parts)}"
        return f"divides each GPU into {shares} shares" if shares not in (1, self.layout.shares) else ""

    def of_plugin(self, offers: Offers) -> int:
        """How many GPUs the device plugin offers; where pods get them by claims, there is to be none."""
        # The kubelet names what a plugin offered for five minutes after it has left, without any to allocate.
        return (
            self.allocatable.get(GPU_RESOURCE, 0) if self.layout.by_claims else gpus_of(self.capacity, offers)
        )

    def offered_twice(self, offers: Offers, gpus: int) -> int:
        """How many GPUs the device plugin and drivers of Dynamic Resource Allocation offer beyond those that the node has."""
        if not self.claimable:
            return 0
        return max(0, self.of_plugin(offers) + len(self.claimable) - gpus)

    def lent_twice(self, offers: Offers, gpus: int) -> tuple[Holder, ...]:
        """Pods that hold, by claims or by other resources, GPUs that the device plugin may give out once more."""
        claimed = self.offered_twice(offers, gpus) > 0
        all_whole = self.of_plugin(offers) >= gpus
        return tuple(
            holder
            for holder in self.holders
            if (claimed and holder.devices) or (all_whole and strange(holder.counts, offers))
        )


def offered(node: Mapping[str, Any], part: str = "allocatable") -> dict[str, int]:
    """GPUs and parts of GPUs of a Node by resource.

    Args:
        node: the object.
        part: of its status: 'allocatable' or 'capacity'.
    """
    rows = (node.get("status") or {}).get(part) or {}
    counts = {name: quantity(value) for name, value in rows.items() if is_gpu(name)}
    return {name: count for name, count in counts.items() if count is not None}


def counted(node: Object, claims: Claims) -> Object:
    """A Node with GPUs by claims among what it offers: the kubelet counts what device plugins offer, and no ResourceSlices.

    Args:
        node: the object.
        claims: with what DRA drivers offer on it.
    """
    if not layouts.of_node(node).by_claims:
        return node
    found = claims.offers.get(node["metadata"]["name"], ())
    count = sum(device.driver == DEVICE_CLASS and device.kind is Kind.GPU for device in found)
    status = node.get("status") or {}
    more = {
        part: {**(status.get(part) or {}), DEVICE_CLASS: str(count)} for part in ("capacity", "allocatable")
    }
    return {**node, "status": {**status, **more}}


def nodes_of(cluster: Lists, name: str = "") -> list[Object]:
    """Nodes as `counted` has them: one list, and one of ResourceSlices if one of them needs it.

    Args:
        cluster: the API.
        name: of one Node; empty for all.
    """
    nodes = cluster.items(NODES, **({"fieldSelector": f"metadata.name={name}"} if name else {}))
    if not any(layouts.of_node(node).by_claims for node in nodes):
        return nodes
    claims = dra.read(cluster, (), name, offers=True)
    return [counted(node, claims) for node in nodes]


def gpu_mark(labels: Mapping[str, str]) -> str:
    """The label by which feature discovery says that a node has GPUs; empty if none does."""
    marks = [key for key, value in labels.items() if value == "true" and PCI_LABEL.fullmatch(key)]
    return next(iter(sorted(marks)), "")


def _name(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _runs(pod: Object, component: str) -> bool:
    return component in operands.components(pod.get("spec") or {})


def _is_ours(pod: Object, operands_namespace: str) -> bool:
    """Whether it is of a DaemonSet of our device plugin; in our namespace there may be one of somebody else."""
    metadata = pod["metadata"]
    return metadata["namespace"] == operands_namespace and operands.is_served(pod, DEVICE_PLUGIN)


def _claimable(claims: Claims, node: str, found: Iterable[Holder]) -> tuple[DraDevice, ...]:
    """Whole GPUs, each once. A driver that starts anew has no ResourceSlice for a while."""
    rows = [*claims.offers.get(node, ()), *(device for holder in found for device in holder.devices)]
    return tuple({device.hardware: device for device in rows if device.kind is Kind.GPU}.values())


def view_of(
    node: Object, pods: Iterable[Object], operands_namespace: str, claims: Claims = NO_CLAIMS
) -> NodeView:
    """A node and its pods, from the API's own data."""
    node = counted(node, claims)
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    # What a validation has said must not decide the next one.
    conditions = {row["type"]: row for row in status.get("conditions") or [] if row["type"] != CONDITION}
    words = {
        kind: f"{kind}={row.get('status')}: {row.get('message') or row.get('reason') or 'no reason given'}"
        for kind, row in conditions.items()
    }
    known = {
        kind: kind.endswith(GOOD_WHEN_TRUE)
        for kind in conditions
        if kind.endswith(GOOD_WHEN_TRUE) or BAD_WHEN_TRUE.fullmatch(kind)
    }
    true = {kind for kind, row in conditions.items() if row.get("status") == "True"}
    wrong = [words[kind] for kind, good in known.items() if good != (kind in true)]
    present = [pod for pod in pods if not finished(pod)]
    plugins = [pod for pod in present if _runs(pod, DEVICE_PLUGIN) and not _is_ours(pod, operands_namespace)]
    found = holders(present, claims)
    return NodeView(
        name=metadata["name"],
        ready=readiness(node).ready,
        conditions=tuple(wrong),
        unjudged=tuple(words[kind] for kind in conditions if kind in true and kind not in known),
        unschedulable=is_cordoned(node),
        capacity=offered(node, "capacity"),
        allocatable=offered(node),
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        taints=tuple(spec.get("taints") or ()),
        holders=found,
        claimable=_claimable(claims, metadata["name"], found),
        tenants=tuple(tenant_of(pod, operands_namespace) for pod in present),
        system_pods=tuple(pod for pod in present if pod["metadata"]["namespace"] == operands_namespace),
        plugins=tuple(map(_name, plugins)),
        plugin_owners=tuple(map(operands.owner, plugins)),
        plugins_by_cdi=tuple(_name(pod) for pod in plugins if by_cdi(pod["spec"])),
        discovered=any(_runs(pod, FEATURE_DISCOVERY) for pod in present),
        told=told_of(node),
        most_pods=quantity((status.get("allocatable") or {}).get("pods")),
    )
