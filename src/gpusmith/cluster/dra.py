"""Devices that pods hold by ResourceClaims, and GPUs that drivers of Dynamic Resource Allocation (DRA) offer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from gpusmith.cluster.api import FORBIDDEN, ApiRefused, Object
from gpusmith.cluster.lists import Lists

VERSION = "resource.k8s.io/v1"
API = f"/apis/{VERSION}"
CLAIMS = f"{API}/resourceclaims"
SLICES = f"{API}/resourceslices"

Pod = Mapping[str, Any]


class Kind(StrEnum):
    """What a device is."""

    GPU = "a GPU"
    PART = "a part of a GPU"
    UNKNOWN = "a device that may be a GPU"
    OTHER = "no GPU"


TYPES = {"gpu": Kind.GPU, "vfio": Kind.GPU, "mig": Kind.PART, "channel": Kind.OTHER, "daemon": Kind.OTHER}
"""Attribute 'type' of NVIDIA's drivers: gpu.nvidia.com, and compute-domain.nvidia.com whose devices are no GPUs
(cmd/*-kubelet-plugin/deviceinfo.go of kubernetes-sigs/dra-driver-nvidia-gpu, read on 2026-11-26)."""
UUIDS = {"gpu-": Kind.GPU, "mig-": Kind.PART}
"""How UUIDs of NVML begin."""
OTHERS = frozenset({"ifname", "mac", "rdma", "cpuid", "coretype", "socketid", "smtenabled"})
"""Attributes that network interfaces (dra.net) and CPUs (dra.cpu) have, and GPUs do not."""
NAMES = {"gpu": Kind.GPU, "compute-domain": Kind.OTHER}
"""First part of a driver's name, for a device that no ResourceSlice describes (any more)."""


@dataclass(frozen=True)
class DraDevice:
    """A device of a DRA driver.

    Attributes:
        driver: its name, such as gpu.nvidia.com.
        pool: of the driver, mostly the node's name.
        name: in the pool.
        kind: what it is.
        uuid: by NVML; empty if the driver tells none.
        pci: its address; empty if the driver tells none.
        claim: the ResourceClaim that it is allocated to; empty for an offer.
    """

    driver: str
    pool: str
    name: str
    kind: Kind
    uuid: str = ""
    pci: str = ""
    claim: str = ""

    @property
    def hardware(self) -> str:
        """Which piece of hardware it is: drivers may offer one under several names."""
        return self.pci or self.uuid or f"{self.driver}/{self.pool}/{self.name}"

    @property
    def words(self) -> str:
        """The device and its claim, for messages."""
        uuid = f", {self.uuid}" if self.uuid else ""
        what = f" ({self.kind}{uuid})" if self.kind is not Kind.GPU or uuid else ""
        device = f", device '{self.name}' of driver '{self.driver}'{what}" if self.driver else ""
        return f"ResourceClaim '{self.claim}'{device}"


@dataclass(frozen=True)
class Claims:
    """What was read of the API group, for some pods.

    Attributes:
        served: whether the cluster has it.
        by_name: devices by namespace and name of the claim that they are allocated to.
        by_pod: the same by UID of the pods that a claim is reserved for.
        offers: GPUs and parts of GPUs by the node whose ResourceSlices offer them.
    """

    served: bool = True
    by_name: Mapping[tuple[str, str], tuple[DraDevice, ...]] = field(default_factory=dict)
    by_pod: Mapping[str, tuple[DraDevice, ...]] = field(default_factory=dict)
    offers: Mapping[str, tuple[DraDevice, ...]] = field(default_factory=dict)

    def held_by(self, pod: Pod) -> tuple[DraDevice, ...]:
        """Devices that a pod holds and that are not known to be something else than GPUs.

        A claim without an allocation holds nothing. One of another version of the API cannot be read, and counts.
        """
        if not self.served:
            return tuple(DraDevice("", "", "", Kind.UNKNOWN, claim=name) for name in _entries(pod))
        metadata = pod["metadata"]
        found = list(self.by_pod.get(str(metadata.get("uid")), ()))
        for name in claims_of(pod):
            found += self.by_name.get((metadata["namespace"], name), ())
        return tuple(device for device in dict.fromkeys(found) if device.kind is not Kind.OTHER)

    def replaces(self, pod: Pod) -> frozenset[tuple[str, str]]:
        """Containers and extended resources of a pod whose devices come by a claim that the scheduler made for them."""
        status = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
        if not self.by_name.get((pod["metadata"]["namespace"], str(status.get("resourceClaimName")))):
            return frozenset()
        return frozenset(
            (str(row.get("containerName")), str(row.get("resourceName")))
            for row in status.get("requestMappings") or []
        )


NO_CLAIMS = Claims()
"""For pods without claims."""


def _entries(pod: Pod) -> list[str]:
    return [str(row.get("name")) for row in (pod.get("spec") or {}).get("resourceClaims") or []]


def claims_of(pod: Pod) -> list[str]:
    """Names of the ResourceClaims of a pod, in its namespace: named by itself, made from a template, made by the scheduler."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    rows = [
        *(spec.get("resourceClaims") or []),
        *(status.get("resourceClaimStatuses") or []),
        status.get("extendedResourceClaimStatus") or {},
    ]
    return [str(row["resourceClaimName"]) for row in rows if row.get("resourceClaimName")]


def read(cluster: Lists, pods: Iterable[Pod], node: str = "", offers: bool = False) -> Claims:
    """Claims of pods; nothing is asked if none of them has any.

    Args:
        cluster: the API.
        pods: all that matter.
        node: on which they are; empty for pods of several nodes.
        offers: what drivers offer is wanted too, whatever the pods have.

    Raises:
        ToolError: the API server does not answer or refuses.
    """
    claiming = any(_entries(pod) or claims_of(pod) for pod in pods)
    if not (claiming or offers):
        return NO_CLAIMS
    if not cluster.serves(API):
        return Claims(served=False)
    try:
        claims = cluster.items(CLAIMS, _without_settings) if claiming else []
        slices = cluster.items(SLICES, **({"fieldSelector": f"spec.nodeName={node}"} if node else {}))
    except ApiRefused as error:
        if error.status != FORBIDDEN:
            raise
        raise ApiRefused(
            error.message,
            "Who holds GPUs by ResourceClaims must be known. Let the account list 'resourceclaims' and 'resourceslices' of"
            " 'resource.k8s.io': validation/rbac.yml and docs/rbac-upgrade.yml have the rules.",
            error.status,
        ) from error
    return parse(claims, slices)


def _without_settings(claim: Object) -> Object:
    """What is allocated to whom; settings of drivers in it may be long, and are nobody's business here."""
    status = claim.get("status") or {}
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results")
    return {
        "metadata": {name: claim["metadata"][name] for name in ("name", "namespace")},
        "status": {
            "allocation": {"devices": {"results": results}} if results else {},
            "reservedFor": status.get("reservedFor") or [],
        },
    }


def parse(claims: Iterable[Object], slices: Iterable[Object]) -> Claims:
    """From the API's own data."""
    described = _described(slices)
    offers: dict[str, list[DraDevice]] = {}
    for node, device in described.values():
        if device.kind in (Kind.GPU, Kind.PART):
            offers.setdefault(node, []).append(device)
    by_name, by_pod = dict[tuple[str, str], tuple[DraDevice, ...]](), dict[str, tuple[DraDevice, ...]]()
    for claim in claims:
        metadata, status = claim["metadata"], claim.get("status") or {}
        devices = tuple(_allocated(claim, {key: device for key, (_, device) in described.items()}))
        by_name[metadata["namespace"], metadata["name"]] = devices
        for row in status.get("reservedFor") or []:
            if row.get("resource") == "pods":
                by_pod[str(row.get("uid"))] = (*by_pod.get(str(row.get("uid")), ()), *devices)
    return Claims(True, by_name, by_pod, {node: tuple(rows) for node, rows in offers.items()})


def _described(slices: Iterable[Object]) -> dict[tuple[str, str, str], tuple[str, DraDevice]]:
    """Devices with their node, empty for one of no single node, by driver, pool and name.

    Only the latest generation of a pool counts: older slices of it are about to be removed.
    """
    slices = list(slices)
    latest: dict[tuple[str, str], int] = {}
    for row in slices:
        key = _pool(row)
        latest[key] = max(latest.get(key, 0), _generation(row))
    found = {}
    for row in slices:
        driver, pool = _pool(row)
        if _generation(row) < latest[driver, pool]:
            continue
        for device in row["spec"].get("devices") or []:
            attributes = _attributes(device)
            found[driver, pool, str(device["name"])] = (
                str(row["spec"].get("nodeName") or ""),
                DraDevice(
                    driver,
                    pool,
                    str(device["name"]),
                    kind_of(driver, attributes),
                    attributes.get("uuid", ""),
                    attributes.get("pcibusid", ""),
                ),
            )
    return found


def _pool(row: Object) -> tuple[str, str]:
    return str(row["spec"]["driver"]), str(row["spec"]["pool"]["name"])


def _generation(row: Object) -> int:
    return int(row["spec"]["pool"].get("generation") or 0)


def _attributes(device: Mapping[str, Any]) -> dict[str, str]:
    """Without their domains, in small letters: drivers write 'uuid' as well as 'gpu.nvidia.com/uuid'."""
    rows = device.get("attributes") or {}
    return {
        name.rpartition("/")[2].lower(): str(next(iter(value.values()), ""))
        for name, value in rows.items()
        if isinstance(value, dict)
    }


def kind_of(driver: str, attributes: Mapping[str, str] | None) -> Kind:
    """What a device is: by what its ResourceSlice says of it, or by the driver's name if that tells nothing.

    Args:
        driver: its name.
        attributes: without their domains, in small letters; None if no slice describes the device.
    """
    attributes = attributes or {}
    if kind := TYPES.get(attributes.get("type", "").lower()):
        return kind
    if kind := UUIDS.get(attributes.get("uuid", "")[:4].lower()):
        return kind
    if OTHERS.intersection(attributes):
        return Kind.OTHER
    return NAMES.get(driver.partition(".")[0], Kind.UNKNOWN)


def _allocated(claim: Object, described: Mapping[tuple[str, str, str], DraDevice]) -> Iterator[DraDevice]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    for row in (allocation.get("devices") or {}).get("results") or []:
        if row.get("adminAccess"):
            continue  # it looks at a device that others may hold
        key = str(row.get("driver")), str(row.get("pool")), str(row.get("device"))
        known = described.get(key)
        kind = known.kind if known else kind_of(key[0], None)
        uuid, pci = (known.uuid, known.pci) if known else ("", "")
        yield DraDevice(*key, kind, uuid, pci, claim["metadata"]["name"])
