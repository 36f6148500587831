"""How the GPUs of this machine are to be divided, by its own word: a change of the layout writes it, and each boot goes by it."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import json
from dataclasses import dataclass

PATH = "/etc/gpusmith/gpu-layout.json"
SCHEMA = "gpusmith.gpu-layout/1"


@dataclass(frozen=True)
class GpuLayout:
    """How each GPU is to be divided. Without a profile GPUs stay whole.

    Attributes:
        profile: name of the instances' size, for people.
        nvml: what NVML calls that size, after 'NVML_GPU_INSTANCE_PROFILE_'.
        starts: first memory slice of each instance on a GPU.
        ignored: GPUs that nobody touches, by PCI device ids ('10de:1fb0') and PCI addresses ('0000:18:00.0').
    """

    schema: str = SCHEMA
    profile: str = ""
    nvml: str = ""
    starts: tuple[int, ...] = ()
    ignored: tuple[str, ...] = ()


def parse(text: str) -> GpuLayout:
    """A layout by the text of its file.

    Raises:
        ValueError: it is none of this schema.
    """
    rows = json.loads(text)
    if not isinstance(rows, dict) or rows.get("schema") != SCHEMA:
        raise ValueError(f"it does not have schema '{SCHEMA}'")
    profile, nvml = rows.get("profile") or "", rows.get("nvml") or ""
    starts, ignored = rows.get("starts") or [], rows.get("ignored") or []
    texts = isinstance(ignored, list) and all(isinstance(part, str) for part in (profile, nvml, *ignored))
    if not texts or not isinstance(starts, list) or not all(type(start) is int for start in starts):
        raise ValueError("one of its values is of another kind than the schema has")
    if len({bool(profile), bool(nvml), bool(starts)}) > 1:
        raise ValueError("'profile', 'nvml' and 'starts' go together")
    return GpuLayout(SCHEMA, profile, nvml, tuple(starts), tuple(ignored))


def read(path: str = PATH) -> GpuLayout | None:
    """What a machine's file says; None without one.

    Raises:
        OSError: it cannot be read.
        ValueError: as of `parse`, or it is no JSON.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return None
    return parse(text)
