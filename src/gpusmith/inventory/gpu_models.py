"""GPU models of a site's own, as an inventory has them: rows as data/gpus.yml has them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gpusmith.data import compatibility, mig, models
from gpusmith.errors import Refusal
from gpusmith.inventory.labels import NAME_WORDS, is_value, must_be
from gpusmith.inventory.templates import has_open
from gpusmith.wording import quoted

VARIABLE = "gpusmith_gpu_models"
REQUIRED = ("name", "pci_device_id", "memory_mib", "architecture")
DEVICE = re.compile(r"(0x|10de:)?[0-9a-f]{4}", re.IGNORECASE)
NOT_READ = frozenset(
    {
        "pci_subsystem_id", "pci_class", "compute_capability", "power_limit_w", "multiprocessors", "pcie_gen", "mig",
        "mig_instances", "nvswitch_device_id", "sources",
    }
)  # fmt: skip
"""Fields of the file that only the lab's simulation and readers use. A row that is copied may keep them."""

Fits = Callable[[Any], bool]


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _number(least: int) -> Fits:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= least


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


FIELDS: Mapping[str, tuple[str, Fits]] = {
    "name": ("the name that NVML tells ('nvidia-smi -L')", _text),
    "pci_device_id": (
        "a PCI device id in quotes, such as '2bb5' or '10de:2bb5'",
        lambda value: isinstance(value, str) and DEVICE.fullmatch(value) is not None,
    ),
    "memory_mib": ("a whole number from 1: MiB as NVML tells them with ECC on", _number(1)),
    "architecture": ("", lambda value: value in compatibility.load().architectures),
    "open_module": (
        "'supported', 'required' or 'unsupported'",
        lambda value: value in ("supported", "required", "unsupported"),
    ),
    "min_driver_branch": ("a whole number, such as 570", _number(0)),
    "pcie_width": ("a number of lanes", _number(1)),
    **dict.fromkeys(("nvlinks", "nvswitches"), ("a whole number from 0", _number(0))),
    **dict.fromkeys(
        ("memory_holds_ecc", "fabric_manager", "nvlink_subnet_manager", "fabric_state_in_nvml"),
        ("true or false", _flag),
    ),
    "mig_table": ("a table of data/mig.yml", lambda value: value in tuple(mig.load())),
    "refused": ("a string", lambda value: isinstance(value, str)),
    "also_named": ("a list of names", lambda value: isinstance(value, list) and all(map(_text, value))),
}
"""What each field must be, and whether it is."""


def rules(name: str, value: Any) -> Iterator[Refusal]:
    """A mapping of names to rows. Null is what is not known, as in the file."""
    if not isinstance(value, Mapping) or not value:
        return
    known = models.load()
    for key, row in value.items():
        if not (isinstance(key, str) and key and is_value(key)):
            yield must_be(name, f"a mapping whose keys are {NAME_WORDS}", key)
        elif key in known:
            yield Refusal(
                f"'{name}' has '{key}', which is a row of data/gpus.yml.",
                "Give the model another name, and write that in 'gpusmith_gpu_model'.",
            )
        elif not isinstance(row, Mapping):
            yield must_be(f"{name}.{key}", f"a mapping with {quoted(REQUIRED)}", row)
        else:
            yield from _row(f"{name}.{key}", row)


def _row(place: str, row: Mapping[str, Any]) -> Iterator[Refusal]:
    for field in REQUIRED:
        if row.get(field) is None:
            yield Refusal(f"'{place}' has no '{field}'.", f"Add it: {_wants(field)}.")
    for field, value in row.items():
        if field in NOT_READ or value is None or (isinstance(value, str) and has_open(value)):
            continue
        if field not in FIELDS:
            yield Refusal(f"'{place}' has no key '{field}'.", f"It has {quoted(FIELDS)}.")
        elif not FIELDS[field][1](value):
            yield must_be(f"{place}.{field}", _wants(field), value)


def _wants(field: str) -> str:
    return FIELDS[field][0] or f"one of {quoted(compatibility.load().architectures)}"
