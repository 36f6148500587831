"""A typed view of the probe's record (schema ``gpusmith.probe/1``); what is unknown stays None."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpusmith.errors import ToolError

SCHEMA = "gpusmith.probe/1"


@dataclass(frozen=True)
class Package:
    """An installed package."""

    version: str
    held: bool


@dataclass(frozen=True)
class PciGpu:
    """A GPU on the PCI bus."""

    address: str
    device_id: str
    driver: str | None


@dataclass(frozen=True)
class Process:
    """A process that computes on a GPU."""

    pid: int
    name: str | None
    pod: bool


@dataclass(frozen=True)
class Gpu:
    """A GPU as NVML sees it.

    Attributes:
        error: NVML's own words when the GPU cannot be asked at all.
        unsupported: values that NVML says the GPU does not have.
        unreadable: values that could not be read, with NVML's words.
    """

    index: int
    uuid: str | None
    name: str | None
    minor: int | None
    pci: str | None
    memory_mib: int | None
    ecc_mode: str | None
    ecc_uncorrected: int | None
    remap_pending: bool | None
    remap_failed: bool | None
    throttle_reasons: tuple[str, ...]
    mig_mode: str | None
    mig_mode_pending: str | None
    pcie_width: int | None
    pcie_width_max: int | None
    fabric_state: str | None
    fabric_status: str | None
    processes: tuple[Process, ...]
    error: str | None
    unsupported: frozenset[str]
    unreadable: Mapping[str, str]

    @property
    def label(self) -> str:
        """How messages name it: index, UUID, address."""
        known = ", ".join(part for part in (self.uuid, self.pci) if part)
        return f"GPU {self.index} ({known})" if known else f"GPU {self.index}"


@dataclass(frozen=True)
class Service:
    """A systemd unit.

    Attributes:
        changed: its files are not those any more that systemd has read ('NeedDaemonReload').
    """

    active: str
    enabled: str
    started_unix: float | None
    changed: bool = False


@dataclass(frozen=True)
class Xid:
    """An error report of the kernel module."""

    code: int
    pci: str
    message: str
    time_unix: float | None


@dataclass(frozen=True)
class SwitchXid:
    """An error report of an NVSwitch (SXid)."""

    code: int
    pci: str
    message: str
    fatal: bool


@dataclass(frozen=True)
class DeviceNode:
    """What a path in /dev is.

    Attributes:
        kind: 'char' for a character device; others are faults.
        mode: its permission bits.
    """

    kind: str
    major: int | None
    minor: int | None
    mode: int
    uid: int
    gid: int


@dataclass(frozen=True)
class Devices:
    """The driver's device nodes, as they were before NVML started.

    Attributes:
        nodes: by path, those that are there.
        mode: what the driver wants, with the owner; None if it does not say.
        uvm_major: of module nvidia-uvm; None if it is not known.
    """

    nodes: Mapping[str, DeviceNode]
    mode: int | None
    uid: int | None
    gid: int | None
    uvm_major: int | None


@dataclass(frozen=True)
class CdiNode:
    """A device node that a CDI device gives to containers.

    Attributes:
        path: in the container.
        host_path: what it is made of, the same path if the specification names none.
        numbers: MAJOR:MINOR if the specification gives them.
    """

    path: str
    host_path: str
    numbers: str | None


@dataclass(frozen=True)
class CdiSpec:
    """A CDI specification of NVIDIA's GPUs.

    Attributes:
        priority: of its folder; the highest one wins.
        problem: why it cannot be read; None if it can.
        names: of all its devices, also those that it has twice.
        devices: GPU nodes by the device's name.
    """

    path: str
    priority: int
    driver: str | None
    problem: str | None
    names: tuple[str, ...]
    devices: Mapping[str, tuple[CdiNode, ...]]


@dataclass(frozen=True)
class LibraryFile:
    """The file that programs get as one of the driver's libraries.

    Attributes:
        fault: why it cannot be loaded; None if nothing speaks against it.
        shadows: files of the same name that they do not get.
    """

    path: str | None
    fault: str | None
    shadows: tuple[str, ...]


@dataclass(frozen=True)
class ContainerdStart:
    """What tells whether the running containerd has the configuration that its files give.

    Attributes:
        digest: of the effective configuration.
        changed_unix: when the youngest file was changed.
        noted_digest: of the configuration that it was last started with by a role.
        noted_unix: when that was noted.
        runtime_binary_found: whether the program of runtime 'nvidia' is there; None if it has none of its own.
    """

    digest: str | None
    changed_unix: float | None
    noted_digest: str | None
    noted_unix: float | None
    runtime_binary_found: bool | None


@dataclass(frozen=True)
class BootModule:
    """What boots do with a kernel module.

    Attributes:
        file: that has it loaded, or says that it is part of the kernel; None if there is none.
        forbidden_by: the file that keeps boots from loading it.
    """

    file: str | None
    forbidden_by: str | None


@dataclass(frozen=True)
class BootParameter:
    """What boots do with a kernel parameter.

    Attributes:
        value: that they set; None if they set none.
        files: that say so.
    """

    value: str | None
    files: tuple[str, ...]


@dataclass(frozen=True)
class Boot:
    """What boots load, set and turn on, by the files that systemd reads.

    Attributes:
        swap_units: links that start a swap unit although swap.target is masked.
    """

    modules: Mapping[str, BootModule]
    sysctl: Mapping[str, BootParameter]
    swap_units: tuple[str, ...]


@dataclass(frozen=True)
class Record:
    """One node's facts, with the names of the record's sections.

    Attributes:
        raw: the record itself.
    """

    hostname: str
    boot_id: str | None
    kernel: str | None
    packages: Mapping[str, Package]
    pci_gpus: tuple[PciGpu, ...]
    pci_nvswitches: tuple[str, ...]
    module_installed: str | None
    module_loaded: str | None
    module_flavour: str | None
    firmware: tuple[str, ...] | None
    nouveau_loaded: bool
    nvml_library: str | None
    cuda_library: str | None
    library_files: Mapping[str, LibraryFile] | None
    nvidia_smi: str | None
    simulated: bool | None
    nvml_code: int | None
    nvml_error: str | None
    gpus: tuple[Gpu, ...]
    minors: tuple[int, ...]
    control_device: bool
    uvm_device: bool
    uvm_tools_device: bool
    devices: Devices | None
    char_links: frozenset[str]
    services: Mapping[str, Service]
    xids: tuple[Xid, ...] | None
    switch_xids: tuple[SwitchXid, ...] | None
    xids_truncated: bool | None
    driver_loaded_unix: float | None
    log_source: str | None
    log_begins_unix: float | None
    containerd_version: str | None
    containerd: ContainerdStart
    effective: Mapping[str, Any]
    cdi: tuple[CdiSpec, ...]
    plugin_cdi: tuple[CdiSpec, ...]
    node_name: str | None
    swap_areas: tuple[str, ...] | None
    swap_fstab: tuple[str, ...]
    swap_target_masked: bool | None
    kernel_modules: Mapping[str, bool]
    sysctl: Mapping[str, str | None]
    boot: Boot | None
    errors: tuple[str, ...]
    raw: Mapping[str, Any] = field(repr=False)

    @property
    def nvml_usable(self) -> bool:
        """Whether NVML could be initialised."""
        return self.nvml_code == 0

    def gpu_at(self, address: str) -> str:
        """How messages name the GPU at a PCI address, also one that NVML does not know."""
        for gpu in self.gpus:
            if gpu.pci == address:
                return gpu.label
        return f"GPU at PCI {address}"


def _part(raw: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = raw.get(name)
    return value if isinstance(value, Mapping) else {}


VALUES = {
    **{
        name: (name,)
        for name in (
            "uuid", "name", "minor", "pci", "memory_mib", "ecc_mode", "ecc_uncorrected", "throttle_reasons", "mig_mode",
            "pcie_width", "pcie_width_max", "processes",
        )
    },
    "row_remap": ("remap_pending", "remap_failed"),
}  # fmt: skip
"""What the probe asks of every GPU, with the keys of its record. Not the fabric, which some models do not have in NVML."""


def _gpu(row: Mapping[str, Any]) -> Gpu:
    # Null without a word about it is not known to be well.
    unsupported = frozenset(row.get("unsupported") or ())
    unreadable = dict(row.get("unreadable") or {})
    for value, keys in VALUES.items():
        if value not in unsupported and any(row.get(key) is None for key in keys):
            unreadable.setdefault(value, "nothing")
    return Gpu(
        index=int(row["index"]),
        throttle_reasons=tuple(row.get("throttle_reasons") or ()),
        processes=tuple(Process(part["pid"], part.get("name"), part["pod"]) for part in row.get("processes") or ()),
        unsupported=unsupported,
        unreadable=unreadable,
        **{
            name: row.get(name)
            for name in (
                "uuid", "name", "minor", "pci", "memory_mib", "ecc_mode", "ecc_uncorrected", "remap_pending", "remap_failed",
                "mig_mode", "mig_mode_pending", "pcie_width", "pcie_width_max", "fabric_state", "fabric_status", "error",
            )
        },
    )  # fmt: skip


def _devices(dev: Mapping[str, Any]) -> Devices | None:
    if not isinstance(dev.get("nodes"), Mapping):
        return None
    return Devices(
        nodes={
            path: DeviceNode(**{key: row[key] for key in ("kind", "major", "minor", "mode", "uid", "gid")})
            for path, row in dev["nodes"].items()
        },
        mode=dev.get("file_mode"),
        uid=dev.get("file_uid"),
        gid=dev.get("file_gid"),
        uvm_major=dev.get("uvm_major"),
    )


def _cdi_spec(row: Mapping[str, Any]) -> CdiSpec:
    return CdiSpec(
        path=row["path"],
        priority=row["priority"],
        driver=row.get("driver_version"),
        problem=row.get("problem"),
        names=tuple(device["name"] for device in row["devices"]),
        devices={
            device["name"]: tuple(
                CdiNode(node["path"], node.get("host_path") or node["path"], node.get("numbers"))
                for node in device["nodes"]
            )
            for device in row["devices"]
        },
    )


def _boot(boot: Mapping[str, Any]) -> Boot | None:
    if not boot:
        return None
    return Boot(
        modules={name: BootModule(row["file"], row["forbidden_by"]) for name, row in boot["modules"].items()},
        sysctl={
            name: BootParameter(row["value"], tuple(row["files"])) for name, row in boot["sysctl"].items()
        },
        swap_units=tuple(boot["swap_units"]),
    )


def parse(raw: Mapping[str, Any]) -> Record:
    """The typed view.

    Raises:
        ToolError: not a record of this schema.
    """
    if raw.get("schema") != SCHEMA:
        raise ToolError(
            f"The probe answered with schema '{raw.get('schema')}', not '{SCHEMA}'.",
            "Use suite and probe of one checkout.",
        )
    host, pci, module = _part(raw, "host"), _part(raw, "pci"), _part(raw, "module")
    library, nvml, dev = _part(raw, "library"), _part(raw, "nvml"), _part(raw, "dev")
    containerd, cdi, system = _part(raw, "containerd"), _part(raw, "cdi"), _part(raw, "system")
    xids = raw.get("xids")
    try:
        return Record(
            hostname=str(host.get("hostname") or ""),
            boot_id=host.get("boot_id"),
            kernel=host.get("kernel"),
            packages={
                name: Package(row["version"], row["held"]) for name, row in _part(raw, "packages").items()
            },
            pci_gpus=tuple(
                PciGpu(row["address"], row["device_id"], row.get("driver")) for row in pci.get("gpus") or ()
            ),
            pci_nvswitches=tuple(row["address"] for row in pci.get("nvswitches") or ()),
            module_installed=module.get("installed_version"),
            module_loaded=module.get("loaded_version"),
            module_flavour=module.get("flavour"),
            firmware=None if module.get("firmware") is None else tuple(module["firmware"]),
            nouveau_loaded=bool(module.get("nouveau_loaded")),
            nvml_library=library.get("nvml_version"),
            cuda_library=library.get("cuda_version"),
            library_files=None
            if library.get("files") is None
            else {
                name: LibraryFile(row["path"], row["fault"], tuple(row["shadows"]))
                for name, row in library["files"].items()
            },
            nvidia_smi=library.get("nvidia_smi"),
            simulated=library.get("simulated"),
            nvml_code=nvml.get("init_code"),
            nvml_error=nvml.get("error"),
            gpus=tuple(_gpu(row) for row in nvml.get("gpus") or ()),
            minors=tuple(dev.get("gpu_minors") or ()),
            control_device=bool(dev.get("control")),
            uvm_device=bool(dev.get("uvm")),
            uvm_tools_device=bool(dev.get("uvm_tools")),
            devices=_devices(dev),
            char_links=frozenset(dev.get("char_links") or ()),
            services={
                name: Service(
                    row["active"], row["enabled"], row.get("started_unix"), bool(row.get("changed"))
                )
                for name, row in _part(raw, "services").items()
            },
            xids=None
            if xids is None
            else tuple(Xid(row["code"], row["pci"], row["message"], row.get("time_unix")) for row in xids),
            switch_xids=None
            if raw.get("sxids") is None
            else tuple(
                SwitchXid(row["code"], row["pci"], row["message"], row["fatal"]) for row in raw["sxids"]
            ),
            xids_truncated=raw.get("xids_truncated"),
            log_source=_part(raw, "log").get("source"),
            log_begins_unix=_part(raw, "log").get("begins_unix"),
            driver_loaded_unix=module.get("loaded_unix"),
            containerd_version=containerd.get("version"),
            containerd=ContainerdStart(
                containerd.get("digest"),
                containerd.get("config_changed_unix"),
                containerd.get("noted_digest"),
                containerd.get("noted_unix"),
                containerd.get("runtime_binary_found"),
            ),
            effective=_part(containerd, "effective"),
            cdi=tuple(_cdi_spec(row) for row in cdi.get("specs") or ()),
            plugin_cdi=tuple(_cdi_spec(row) for row in cdi.get("plugin_specs") or ()),
            node_name=_part(raw, "kubernetes").get("node_name"),
            swap_areas=None if system.get("swap_areas") is None else tuple(system["swap_areas"]),
            swap_fstab=tuple(system.get("swap_fstab") or ()),
            swap_target_masked=system.get("swap_target_masked"),
            kernel_modules=_part(system, "modules"),
            sysctl=_part(system, "sysctl"),
            boot=_boot(_part(raw, "boot")),
            errors=tuple(raw.get("errors") or ()),
            raw=raw,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ToolError(
            f"The probe's record has a hole that the schema does not allow: {error!r}.",
            "Report this with the record.",
        ) from error
