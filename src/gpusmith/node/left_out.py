"""GPUs of a machine that the inventory leaves out, such as a display adapter, or one that virtual machines get.

Records pass here once, where they come from a node: nobody else has to know of these GPUs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from gpusmith.probe.usage import minor_of

VARIABLE = "gpusmith_gpus_ignored"


def without(raw: Mapping[str, Any], ignored: Collection[str]) -> Mapping[str, Any]:
    """The probe's record with these GPUs apart from the others, in 'left_out' of its sections 'pci' and 'nvml'.

    Args:
        raw: plain JSON.
        ignored: PCI device ids ('10de:1fb0') and PCI addresses ('0000:18:00.0').
    """
    names = {name.lower() for name in ignored}
    if not names:
        return raw
    pci, nvml, dev = (raw.get(section) or {} for section in ("pci", "nvml", "dev"))
    buses, devices = pci.get("gpus") or [], nvml.get("gpus") or []
    gone = [row for row in buses if names & {row.get("address"), row.get("device_id", "").lower()}]
    # One that fell off the bus has an address only.
    addresses = names | {row["address"] for row in gone}
    known = [row for row in devices if row.get("pci") in addresses]
    minors = {row.get("minor") for row in known}
    changed = {
        "pci": {**pci, "gpus": [row for row in buses if row not in gone], "left_out": gone},
        "nvml": {**nvml, "gpus": [row for row in devices if row not in known], "left_out": known},
        "dev": {**dev, "gpu_minors": [minor for minor in dev.get("gpu_minors") or [] if minor not in minors]},
        # Who has one of these open takes nothing from pods.
        "holders": [
            {**row, "devices": [path for path in row.get("devices") or [] if minor_of(path) not in minors]}
            for row in raw.get("holders") or []
        ],
        "xids": [row for row in raw.get("xids") or [] if row.get("pci") not in addresses],
    }
    # A section that could not be gathered stays unknown.
    return {**raw, **{name: value for name, value in changed.items() if raw.get(name) is not None}}
