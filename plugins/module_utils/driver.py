"""What a node's driver should be, and how the node differs from that. Pure functions over the probe's record."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import fnmatch
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

Record = Mapping[str, Any]
DRIVER_VERSION = re.compile(r"^(?:\d+:)?(\d{3}\.\d{2,3}(?:\.\d{2})?)(?=[-+~]|$)")
# What cures a difference. The role goes through them in this order.
CURES = ("packages", "hold", "reboot", "load", "services", "wait", "person")


class Difference(NamedTuple):
    """One way in which the node is not as wanted, and what cures it."""

    cure: str
    text: str


class Wanted(NamedTuple):
    """What the node should have.

    Attributes:
        version: of the driver, without the package's revision.
        flavour: open or proprietary.
        packages: names whose version is the driver's.
        other_packages: names that have versions of their own.
        patterns: names of all packages that belong to the driver, as shell patterns.
        fabric_manager: package of the fabric manager; empty if the node needs none.
    """

    version: str
    flavour: str
    packages: List[str]
    other_packages: List[str]
    patterns: List[str]
    fabric_manager: str


def upstream_version(package_version: str) -> Optional[str]:
    """'580.178.04' of '580.178.04-1'; None for versions that are not a driver's."""
    matched = DRIVER_VERSION.match(package_version)
    return matched.group(1) if matched else None


def is_version(package_version: str, wanted: str) -> bool:
    """Whether a package has the wanted driver version, which may be given with the package's revision."""
    plain = re.sub(r"^\d+:", "", package_version)
    return wanted in (package_version, plain) or plain.startswith((wanted + "-", wanted + "+", wanted + "~"))


# --- what is wanted ------------------------------------------------------------------------------------------------


def models_on(record: Record, models: Mapping[str, Mapping[str, Any]]) -> List[Mapping[str, Any]]:
    """Rows of data/gpus.yml for the GPUs on PCI; GPUs that it does not know are left out."""
    by_id = {str(row.get("pci_device_id", "")).replace("0x", "10de:").lower(): row for row in models.values()}
    pci = record.get("pci") or {}
    return [by_id[gpu["device_id"]] for gpu in pci.get("gpus") or [] if gpu.get("device_id") in by_id]


def choose_flavour(setting: str, rows: List[Mapping[str, Any]]) -> str:
    """Open modules unless a GPU of the node is too old for them.

    Raises:
        ValueError: the setting or the mixture of GPUs leaves no module that drives them all.
    """
    unsupported = sorted({str(row["name"]) for row in rows if row.get("open_module") == "unsupported"})
    required = sorted({str(row["name"]) for row in rows if row.get("open_module") == "required"})
    if setting == "auto":
        if unsupported and required:
            raise ValueError(
                f"No kernel module drives both '{unsupported[0]}' and '{required[0]}'. Put them into different nodes."
            )
        return "proprietary" if unsupported else "open"
    if setting == "open" and unsupported:
        raise ValueError(
            f"The open kernel module does not support '{unsupported[0]}'. Set 'nvidia_driver_module_flavour: auto'."
        )
    if setting == "proprietary" and required:
        raise ValueError(
            f"Only the open kernel module supports '{required[0]}'. Set 'nvidia_driver_module_flavour: auto'."
        )
    return setting


def needs_fabric_manager(setting: str, record: Record, rows: List[Mapping[str, Any]]) -> bool:
    """By the setting; for auto, whether NVSwitches are on PCI, or the GPUs' board hides its own from PCI."""
    if setting != "auto":
        return setting == "enabled"
    if (record.get("pci") or {}).get("nvswitches"):
        return True
    return any(row.get("fabric_manager") and not row.get("nvswitches") for row in rows)


def want(
    record: Record,
    settings: Mapping[str, Any],
    layout: Mapping[str, Any],
    models: Mapping[str, Mapping[str, Any]],
) -> Wanted:
    """Work out what the node should have.

    Args:
        record: the probe's.
        settings: version, module_flavour, fabric_manager as the role's variables.
        layout: the package names of the repository's layout.
        models: rows of data/gpus.yml by key.

    Raises:
        ValueError: the settings cannot be met; the text says why and what to change.
    """
    rows = models_on(record, models)
    flavour = choose_flavour(str(settings["module_flavour"]), rows)
    fabric = ""
    if needs_fabric_manager(str(settings["fabric_manager"]), record, rows):
        fabric = str(layout.get("fabric_manager") or "")
        if not fabric:
            raise ValueError(
                "The node has NVSwitches, and this package layout has no fabric manager. "
                "Use NVIDIA's repository with 'nvidia_driver_package_layout: nvidia'."
            )
    packages = [*layout["packages"], layout["kernel"][flavour]]
    return Wanted(
        version=str(settings["version"]),
        flavour=flavour,
        packages=packages + ([fabric] if fabric else []),
        other_packages=list(layout.get("other_packages") or []),
        patterns=list(layout["patterns"]),
        fabric_manager=fabric,
    )


# --- how the node differs ------------------------------------------------------------------------------------------


def driver_packages(record: Record, wanted: Wanted) -> Dict[str, str]:
    """Installed packages of the driver with their versions: those named, and all whose version is a driver's."""
    found = {}
    for name, package in (record.get("packages") or {}).items():
        named = name in wanted.packages
        alike = any(fnmatch.fnmatch(name, pattern) for pattern in wanted.patterns)
        if named or (alike and name not in wanted.other_packages and upstream_version(package["version"])):
            found[name] = package["version"]
    return found


def unheld(record: Record, wanted: Wanted) -> List[str]:
    """Installed packages of the driver, also those with versions of their own, that any upgrade may change."""
    there = record.get("packages") or {}
    belonging = {*driver_packages(record, wanted), *wanted.other_packages} & set(there)
    return sorted(name for name in belonging if not there[name]["held"])


def installed_versions(record: Record, wanted: Wanted) -> List[str]:
    """Driver versions that packages on the node have; more than one is a half-done change."""
    versions = {upstream_version(version) or version for version in driver_packages(record, wanted).values()}
    return sorted(versions)


def drift(record: Record, wanted: Wanted) -> List[str]:
    """Packages of another version than the wanted one, in words."""
    return [
        f"'{name}' is {version}"
        for name, version in sorted(driver_packages(record, wanted).items())
        if not is_version(version, wanted.version)
    ]


def _package_differences(record: Record, wanted: Wanted) -> List[Difference]:
    there = record.get("packages") or {}
    found = [
        Difference("packages", f"package '{name}' is not installed")
        for name in [*wanted.packages, *wanted.other_packages]
        if name not in there
    ]
    found += [
        Difference("packages", f"package {text} instead of {wanted.version}")
        for text in drift(record, wanted)
    ]
    loose = unheld(record, wanted)
    if loose and not found:
        found.append(Difference("hold", f"packages {', '.join(loose)} are not held"))
    return found


def _module_differences(record: Record, wanted: Wanted) -> List[Difference]:
    module = record.get("module") or {}
    kernel = (record.get("host") or {}).get("kernel")
    installed, loaded = module.get("installed_version"), module.get("loaded_version")
    found = []
    if module.get("nouveau_loaded"):
        found.append(Difference("reboot", "the module 'nouveau' is loaded and holds the GPUs"))
    if installed is None:
        found.append(
            Difference(
                "packages",
                f"there is no module 'nvidia' for kernel '{kernel}', which DKMS builds if package 'linux-headers-{kernel}' is there",
            )
        )
    elif installed != wanted.version:
        found.append(Difference("packages", f"the module file is {installed} instead of {wanted.version}"))
    if loaded is None:
        found.append(Difference("load", "the module 'nvidia' is not loaded"))
    elif loaded != wanted.version:
        found.append(Difference("reboot", f"the loaded module is {loaded} instead of {wanted.version}"))
    if module.get("flavour") not in (None, wanted.flavour):
        cure = "reboot" if loaded is not None else "packages"
        found.append(
            Difference(cure, f"the module is the {module['flavour']} one instead of the {wanted.flavour} one")
        )
    return found


def _library_differences(record: Record, wanted: Wanted) -> List[Difference]:
    library = record.get("library") or {}
    return [
        Difference("packages", f"'{name}' is {library.get(key) or 'missing'} instead of {wanted.version}")
        for key, name in (("nvml_version", "libnvidia-ml.so.1"), ("cuda_version", "libcuda.so.1"))
        if library.get(key) != wanted.version
    ]


def _service_differences(record: Record, wanted: Wanted, unit: str) -> List[Difference]:
    services = record.get("services") or {}
    units = ["nvidia-persistenced"] + (["nvidia-fabricmanager"] if wanted.fabric_manager else [])
    found = []
    for name in units:
        service = services.get(name) or {}
        if service.get("active") != "active" or service.get("enabled") != "enabled":
            state = f"{service.get('active') or 'unknown'} and {service.get('enabled') or 'unknown'}"
            found.append(Difference("services", f"service '{name}' is {state}"))
    loader = (services.get(unit.replace(".service", "")) or {}).get("enabled")
    if loader in ("disabled", "masked"):
        found.append(
            Difference("services", f"service '{unit}' is {loader}, so nothing loads the modules at boot")
        )
    dev = record.get("dev") or {}
    for key, path in (("control", "/dev/nvidiactl"), ("uvm", "/dev/nvidia-uvm")):
        if not dev.get(key):
            found.append(Difference("load", f"'{path}' is missing, which '{unit}' makes"))
    return found


def _gpu_differences(record: Record, wanted: Wanted) -> List[Difference]:
    nvml = record.get("nvml") or {}
    pci = len((record.get("pci") or {}).get("gpus") or [])
    if nvml.get("init_code") != 0:
        return [Difference("wait", f"NVML does not answer: {nvml.get('error') or 'no library'}")]
    found = []
    gpus = nvml.get("gpus") or []
    for gpu in gpus:
        name = f"GPU {gpu.get('index')} ({gpu.get('pci') or 'unknown address'})"
        if gpu.get("error"):
            found.append(Difference("person", f"{name}: {gpu['error']}"))
        elif wanted.fabric_manager and gpu.get("fabric_state") in ("not_started", "in_progress"):
            found.append(Difference("wait", f"{name}: its fabric is {gpu['fabric_state']}"))
        elif wanted.fabric_manager and gpu.get("fabric_status") not in (None, "success"):
            found.append(Difference("person", f"{name}: its fabric failed: {gpu['fabric_status']}"))
    minors = len((record.get("dev") or {}).get("gpu_minors") or [])
    if not pci == len(gpus) == minors:
        found.append(Difference("wait", f"PCI has {pci} GPUs, NVML {len(gpus)}, /dev {minors}"))
    return found


def may_pass(found: List[Difference]) -> bool:
    """Whether all differences are of a kind that can vanish by itself while services start."""
    return all(difference.cure in ("wait", "load", "services") for difference in found)


def differences(record: Record, wanted: Wanted, unit: str) -> List[Difference]:
    """Every way in which the node is not as wanted.

    Args:
        record: the probe's.
        wanted: from want().
        unit: systemd unit that loads the modules.
    """
    found = (
        _package_differences(record, wanted)
        + _module_differences(record, wanted)
        + _library_differences(record, wanted)
    )
    if (record.get("pci") or {}).get("gpus"):
        found += _service_differences(record, wanted, unit) + _gpu_differences(record, wanted)
    else:
        found = [difference for difference in found if difference.cure not in ("load", "reboot")]
        found.append(Difference("person", "there is no NVIDIA GPU on PCI"))
    return found
