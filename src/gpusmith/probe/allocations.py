"""Which devices the kubelet allocated to which pods, by the checkpoint of its device manager."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from gpusmith.probe.files import read_text

CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
# What pods claim by Dynamic Resource Allocation; only whether a pod is in it matters here.
CLAIMS = "/var/lib/kubelet/dra_manager_state"
# Beginning of the error for an unknown format.
UNREAD = "the kubelet's checkpoint of devices"
FAMILY = "nvidia.com/"
POD = re.compile(
    r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32})"
)


@dataclass(frozen=True)
class Allocations:
    """Allocated devices.

    Attributes:
        devices: ids of NVIDIA's devices, such as UUIDs of GPUs, with '::NUMBER' behind them for a share, by the UID of the pod.
        claimants: UIDs of pods with claims, whose devices are not known here.
    """

    devices: Mapping[str, tuple[str, ...]]
    claimants: frozenset[str] = frozenset()


def pod_uid(cgroup: str | None) -> str | None:
    """UID of the pod in whose cgroup a process is; None if it is in none.

    Args:
        cgroup: content of /proc/PID/cgroup. The systemd driver writes '_' for '-'.
    """
    found = POD.search(cgroup or "")
    return found.group(1).replace("_", "-") if found else None


def parse_checkpoint(text: str) -> dict[str, tuple[str, ...]]:
    """NVIDIA's devices by pod.

    Raises:
        ValueError: this is no checkpoint that is known.
    """
    try:
        rows = json.loads(text)["Data"]["PodDeviceEntries"] or []
        found: dict[str, tuple[str, ...]] = {}
        for row in rows:
            if str(row["ResourceName"]).startswith(FAMILY):
                # By NUMA node.
                ids = [str(name) for names in (row["DeviceIDs"] or {}).values() for name in names]
                found[row["PodUID"]] = (*found.get(row["PodUID"], ()), *ids)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{UNREAD} is not understood: {error!r}") from error
    return found


def read(errors: list[str]) -> Allocations | None:
    """The kubelet's checkpoint; None if there is none, or its format is unknown."""
    text = read_text(CHECKPOINT)
    if text is None:
        return None
    try:
        devices = parse_checkpoint(text)
    except ValueError as error:
        errors.append(str(error))
        return None
    claims = read_text(CLAIMS) or ""
    return Allocations(devices, frozenset(re.findall(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", claims)))


def gather(before: Allocations | None, errors: list[str]) -> Allocations | None:
    """Allocations before and after the processes were listed: pods may start or end in between.

    Args:
        before: from read().
        errors: gets what went wrong.
    """
    now = read(errors)
    if before is None or now is None:
        return now or before
    devices = {
        uid: tuple(dict.fromkeys((*before.devices.get(uid, ()), *now.devices.get(uid, ()))))
        for uid in {**before.devices, **now.devices}
    }
    return Allocations(devices, before.claimants | now.claimants)
