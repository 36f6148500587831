"""Which models a machine's GPUs are: rows of data/gpus.yml, and of any other GPU what PCI and NVML tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from gpusmith.data import compatibility
from gpusmith.data.models import Model
from gpusmith.probe.pci import Pci, PciDevice
from gpusmith.probe.record import Record

NO_ROW = "no row of data/gpus.yml: no baseline"
"""What is said of a GPU for which there is nothing to compare with."""
ADD_ONE = "an inventory can add one, 'gpusmith_gpu_models'"


def of(record: Record, models: Mapping[str, Model]) -> list[Model]:
    """Models of the GPUs on PCI, each once."""
    return sorted(set(_each(record, models)), key=lambda model: model.key)


def row_of(record: Record, models: Mapping[str, Model]) -> Model | None:
    """The one row that all GPUs of the machine are; None if they are none, or of several models."""
    found = of(record, models)
    return found[0] if len(found) == 1 and found[0].listed else None


def kinds(record: Record, models: Mapping[str, Model]) -> str:
    """The GPUs in words, by model: '4 x l40s, 2 x NVIDIA RTX A6000 (10de:2230)'."""
    counted = Counter(_title(model) for model in _each(record, models))
    return ", ".join(f"{count} x {title}" for title, count in sorted(counted.items()))


def notes(record: Record, models: Mapping[str, Model], setting: str) -> list[str]:
    """What a person should know of GPUs that are no row, or of several models.

    Args:
        record: of the node.
        models: rows by key.
        setting: of the kernel module's kind: auto, open or proprietary.
    """
    found = of(record, models)
    said = [
        f"{_title(model)}: {NO_ROW} ({ADD_ONE}), {_why(model, setting)}"
        for model in found
        if not model.listed
    ]
    if len(found) > 1:
        said.append(
            f"has GPUs of several models ({kinds(record, models)}), which the device plugin offers as one resource:"
            " a job may get any of them"
        )
    return said


def left_out(record: Record) -> list[str]:
    """GPUs that count for nothing, in words: nobody takes them for tested."""
    return [
        f"GPU {gpu.address} ({gpu.device_id}, driver {gpu.driver or 'none'}) is left out by 'gpusmith_gpus_ignored'"
        for gpu in record.pci.left_out
    ]


def seen_by_operands(pci: Pci) -> str:
    """What to do about GPUs that are left out and offered all the same; empty if there are none.

    Device plugin and feature discovery leave out products called 'DGX Display' alone (NVIDIA/go-nvlib, pkg/nvlib/device/api.go).
    """
    at = [gpu.address for gpu in pci.left_out if gpu.driver == "nvidia"]
    if not at:
        return ""
    return (
        "Operands take every GPU that the NVIDIA driver has, but for NVIDIA's DGX Display. Bind those of 'gpusmith_gpus_ignored'"
        f" ({', '.join(at)}) to another driver, such as vfio-pci; or take them out of the list, and count them."
    )


def _each(record: Record, models: Mapping[str, Model]) -> list[Model]:
    rows = {model.pci_device_id: model for model in models.values()}
    return [rows.get(gpu.device_id.lower()) or _unlisted(record, gpu) for gpu in record.pci.gpus]


def _unlisted(record: Record, gpu: PciDevice) -> Model:
    """What is known of a GPU that is no row. Where its architecture is not, it is taken for one of the newest."""
    device, known = gpu.device_id.lower(), compatibility.load()
    architecture = known.architecture_of(device)
    limits = known.architectures.get(architecture, compatibility.Limits())
    name = next((row.name for row in record.nvml.gpus if row.pci == gpu.address and row.name), None)
    return Model(
        key=device,
        name=name or f"GPU {device}",
        pci_device_id=device,
        memory_mib=0,
        nvswitches=0,
        fabric_manager=False,
        fabric_state_in_nvml=False,
        architecture=architecture,
        open_module=limits.open_module,
        pcie_width=None,
        listed=False,
    )


def _title(model: Model) -> str:
    if model.listed or model.name.endswith(model.key):
        return model.key if model.listed else model.name
    return f"{model.name} ({model.key})"


def _why(model: Model, setting: str) -> str:
    if setting != "auto":
        return f"module flavour '{setting}' as in 'nvidia_driver_module_flavour'"
    if model.architecture:
        return f"module flavour chosen by architecture '{model.architecture}'"
    return (
        "and no architecture is known of its PCI ID: it gets the open kernel module, as the newest GPUs do."
        " If that does not drive it, set 'nvidia_driver_module_flavour: proprietary'"
    )
