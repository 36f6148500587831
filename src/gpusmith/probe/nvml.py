"""What NVML says about the GPUs."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Callable

from gpusmith.probe.allocations import pod_uid
from gpusmith.probe.child import within
from gpusmith.probe.files import read_text
from gpusmith.probe.instances import Instance, gather
from gpusmith.probe.pci import normal_pci

THROTTLE_REASONS = {
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
NO_FUNCTION = "the NVIDIA library has no such function"
COMPUTE_MODES = {0: "default", 1: "exclusive_thread", 2: "prohibited", 3: "exclusive_process"}
FABRIC_STATES = {0: "not_supported", 1: "not_started", 2: "in_progress", 3: "completed"}


@dataclass(frozen=True)
class Process:
    """A process that computes on a GPU.

    Attributes:
        pod: whether it belongs to a pod, by its cgroup.
        pod_uid: of that pod.
    """

    pid: int
    name: str | None
    pod: bool
    pod_uid: str | None = None


VALUES = {
    **{
        name: (name,)
        for name in (
            "uuid", "name", "minor", "pci", "memory_mib", "ecc_mode", "ecc_uncorrected", "throttle_reasons", "mig_mode",
            "pcie_width", "pcie_width_max", "processes", "vbios", "persistence_mode", "nvlinks",
        )
    },
    "row_remap": ("remap_pending", "remap_failed"),
    "retired_pages": ("retired_pages", "retirement_pending"),
    "power_limit": ("power_limit_mw",),
}  # fmt: skip
"""What every GPU is asked, with the fields that it gives. Not the fabric, which some models do not have in NVML."""


@dataclass(frozen=True)
class Gpu:
    """A GPU as NVML sees it.

    Attributes:
        instances: that MIG has made; None without MIG mode.
        compute_mode: how many processes may compute on it: 'default', 'exclusive_process' or 'prohibited'.
        retired_pages: pages of memory that are no longer used, of GPUs that cannot remap rows.
        retirement_pending: more of them wait for the next load of the driver.
        power_limit_mw: that is set now.
        nvlinks: of each NVLink, whether it is up.
        nvlink_mbps: raw rate of each in MB/s, 0 for one that does not tell it; None if this GPU or library does not have it.
        error: NVML's own words when the GPU cannot be asked at all.
        unsupported: values that NVML says the GPU does not have.
        unreadable: values that could not be read, with NVML's words.
    """

    index: int
    uuid: str | None = None
    name: str | None = None
    minor: int | None = None
    pci: str | None = None
    memory_mib: int | None = None
    ecc_mode: str | None = None
    ecc_uncorrected: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    retired_pages: int | None = None
    retirement_pending: bool | None = None
    throttle_reasons: tuple[str, ...] | None = None
    mig_mode: str | None = None
    mig_mode_pending: str | None = None
    instances: tuple[Instance, ...] | None = None
    compute_mode: str | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    nvlinks: tuple[bool, ...] | None = None
    nvlink_mbps: tuple[int, ...] | None = None
    fabric_state: str | None = None
    fabric_status: str | None = None
    vbios: str | None = None
    persistence_mode: str | None = None
    power_limit_mw: int | None = None
    processes: tuple[Process, ...] | None = None
    error: str | None = None
    unsupported: frozenset[str] = frozenset()
    unreadable: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """How messages name it: index, UUID, address."""
        known = ", ".join(part for part in (self.uuid, self.pci) if part)
        return f"GPU {self.index} ({known})" if known else f"GPU {self.index}"

    def with_gaps(self) -> Gpu:
        """The same with each value that is null without a word about it among the unreadable ones."""
        gaps = {
            value: "nothing"
            for value, fields in VALUES.items()
            if value not in self.unsupported and any(getattr(self, name) is None for name in fields)
        }
        return replace(self, unreadable={**gaps, **self.unreadable})


@dataclass(frozen=True)
class Nvml:
    """The library's answer.

    Attributes:
        init_code: of nvmlInit; None if there is no library.
        error: why it does not answer.
        left_out: GPUs that the inventory leaves out, which are not among the others (node/left_out.py).
    """

    init_code: int | None = None
    error: str | None = None
    driver_version: str | None = None
    gpus: tuple[Gpu, ...] = ()
    left_out: tuple[Gpu, ...] = ()


@dataclass(frozen=True)
class Answer:
    """What a process that called the library found.

    Attributes:
        simulated: whether the library carries the simulation's mark; None if it could not be loaded.
    """

    nvml: Nvml
    simulated: bool | None = None


def words(error: Any) -> str:
    """NVML's own words for one of its errors; pynvml's where the library has none."""
    import pynvml

    try:
        text = pynvml.nvmlErrorString(error.value)
    except pynvml.NVMLError:
        text = None
    return text.decode(errors="replace") if isinstance(text, bytes) else str(text or error)


def in_pod(cgroup: str | None) -> bool:
    """Whether the content of /proc/PID/cgroup is that of a pod's process."""
    return "kubepods" in (cgroup or "")


class Questions:
    """Asks about one GPU, and notes what could not be answered.

    Attributes:
        unsupported: values that the GPU does not have.
        unreadable: why others are unknown, in NVML's words.
    """

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self.unsupported: set[str] = set()
        self.unreadable: dict[str, str] = {}

    def ask(self, value: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """What a function of pynvml returns for this GPU; None, with a note under the value's name, if it fails."""
        import pynvml

        try:
            return function(self._handle, *arguments)
        except pynvml.NVMLError_NotSupported:
            self.unsupported.add(value)
        except pynvml.NVMLError_FunctionNotFound:
            self.unreadable[value] = NO_FUNCTION
        except pynvml.NVMLError as error:
            self.unreadable[value] = words(error)
        except UnicodeDecodeError:
            self.unreadable[value] = "no text"
        return None


def _mode(number: int) -> str:
    return "enabled" if number else "disabled"


def _clock_reasons(handle: Any) -> tuple[str, ...]:
    import pynvml

    try:
        reasons = pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
    except pynvml.NVMLError_FunctionNotFound:  # its name in drivers before 535
        reasons = pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
    return tuple(text for bit, text in THROTTLE_REASONS.items() if reasons & bit)


def _processes(handle: Any) -> tuple[Process, ...]:
    import pynvml

    try:
        rows = pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)
    except pynvml.NVMLError_InsufficientSize:  # more have come than it left room for
        rows = pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)
    # What is not there has ended since, or is another PID namespace's.
    return tuple(_process(row.pid) for row in rows if os.path.exists(f"/proc/{row.pid}"))


def _process(pid: int) -> Process:
    cgroup = read_text(f"/proc/{pid}/cgroup")
    return Process(pid, read_text(f"/proc/{pid}/comm"), in_pod(cgroup), pod_uid(cgroup))


def _fabric(handle: Any) -> tuple[str, str | None]:
    import pynvml

    info = pynvml.c_nvmlGpuFabricInfo_t()
    pynvml.nvmlDeviceGetGpuFabricInfo(handle, ctypes.byref(info))
    state = FABRIC_STATES.get(info.state, f"state {info.state}")
    if state != "completed":
        return state, None
    return state, "success" if info.status == pynvml.NVML_SUCCESS else words(pynvml.NVMLError(info.status))


def _links(handle: Any) -> tuple[bool, ...]:
    import pynvml

    found: list[bool] = []
    for number in range(pynvml.NVML_NVLINK_MAX_LINKS):
        try:
            found.append(bool(pynvml.nvmlDeviceGetNvLinkState(handle, number)))
        except (pynvml.NVMLError_InvalidArgument, pynvml.NVMLError_NotSupported):
            break  # there is no such link
    if not found:
        raise pynvml.NVMLError_NotSupported
    return tuple(found)


def _link_rates(handle: Any, count: int) -> tuple[int, ...]:
    import pynvml

    asked = [(pynvml.NVML_FI_DEV_NVLINK_GET_SPEED, number) for number in range(count)]
    rows = pynvml.nvmlDeviceGetFieldValues(handle, asked)
    if all(row.nvmlReturn == pynvml.NVML_ERROR_NOT_SUPPORTED for row in rows):
        raise pynvml.NVMLError_NotSupported
    return tuple(row.value.uiVal if row.nvmlReturn == pynvml.NVML_SUCCESS else 0 for row in rows)


def _retired(handle: Any) -> tuple[int, bool]:
    import pynvml

    causes = (
        pynvml.NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS,
        pynvml.NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR,
    )
    pages = sum(len(pynvml.nvmlDeviceGetRetiredPages(handle, cause)) for cause in causes)
    return pages, bool(pynvml.nvmlDeviceGetRetiredPagesPendingStatus(handle))


def _settings(questions: Questions) -> dict[str, Any]:
    """What an administrator can set, and a new driver may have otherwise, of one GPU."""
    import pynvml

    persistence = questions.ask("persistence_mode", pynvml.nvmlDeviceGetPersistenceMode)
    compute = questions.ask("compute_mode", pynvml.nvmlDeviceGetComputeMode)
    return {
        "compute_mode": None if compute is None else COMPUTE_MODES.get(compute, f"mode {compute}"),
        "vbios": questions.ask("vbios", pynvml.nvmlDeviceGetVbiosVersion),
        "persistence_mode": None if persistence is None else _mode(persistence),
        "power_limit_mw": questions.ask("power_limit", pynvml.nvmlDeviceGetPowerManagementLimit),
    }


def _health(questions: Questions) -> dict[str, Any]:
    """Memory errors, row remapping, slowdowns and partitioning of one GPU."""
    import pynvml

    ecc = questions.ask("ecc_mode", pynvml.nvmlDeviceGetEccMode)
    rows = questions.ask("row_remap", pynvml.nvmlDeviceGetRemappedRows)
    retired = questions.ask("retired_pages", _retired)
    mig = questions.ask("mig_mode", pynvml.nvmlDeviceGetMigMode)
    return {
        "ecc_mode": _mode(ecc[0]) if ecc else None,
        "ecc_uncorrected": questions.ask(
            "ecc_uncorrected",
            pynvml.nvmlDeviceGetTotalEccErrors,
            pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
            pynvml.NVML_VOLATILE_ECC,
        ),
        "remap_pending": bool(rows[2]) if rows else None,
        "remap_failed": bool(rows[3]) if rows else None,
        "retired_pages": retired[0] if retired else None,
        "retirement_pending": retired[1] if retired else None,
        "throttle_reasons": questions.ask("throttle_reasons", _clock_reasons),
        "mig_mode": _mode(mig[0]) if mig else None,
        "mig_mode_pending": _mode(mig[1]) if mig else None,
        "instances": questions.ask("instances", gather) if mig and mig[0] else None,
    }


def _identity(questions: Questions) -> dict[str, Any]:
    """Names, place and links of one GPU, and who computes on it."""
    import pynvml

    ask = questions.ask
    memory = ask("memory_mib", pynvml.nvmlDeviceGetMemoryInfo)
    fabric = ask("fabric_state", _fabric)
    links = ask("nvlinks", _links)
    return {
        "uuid": ask("uuid", pynvml.nvmlDeviceGetUUID),
        "name": ask("name", pynvml.nvmlDeviceGetName),
        "minor": ask("minor", pynvml.nvmlDeviceGetMinorNumber),
        "pci": ask("pci", lambda handle: normal_pci(pynvml.nvmlDeviceGetPciInfo(handle).busId)),
        "memory_mib": memory.total // (1024 * 1024) if memory else None,
        "pcie_width": ask("pcie_width", pynvml.nvmlDeviceGetCurrPcieLinkWidth),
        "pcie_width_max": ask("pcie_width_max", pynvml.nvmlDeviceGetMaxPcieLinkWidth),
        "processes": ask("processes", _processes),
        "nvlinks": links,
        "nvlink_mbps": ask("nvlink_mbps", _link_rates, len(links)) if links else None,
        "fabric_state": fabric[0] if fabric else None,
        "fabric_status": fabric[1] if fabric else None,
    }


def gather_gpu(index: int) -> Gpu:
    """One GPU, by its index."""
    import pynvml

    try:
        questions = Questions(pynvml.nvmlDeviceGetHandleByIndex(index))
    except pynvml.NVMLError_FunctionNotFound:
        return Gpu(index, error="nvmlDeviceGetHandleByIndex_v2 is missing")
    except pynvml.NVMLError as error:
        return Gpu(index, error=words(error))
    values = {**_identity(questions), **_health(questions), **_settings(questions)}
    return Gpu(
        index,
        **values,
        error=_lost(questions),
        unsupported=frozenset(questions.unsupported),
        unreadable=questions.unreadable,
    )


def _lost(questions: Questions) -> str | None:
    """NVML's words for a GPU that is gone: it still tells its name, but not its memory."""
    import pynvml

    if "memory_mib" in questions.unsupported:
        return words(pynvml.NVMLError_NotSupported())
    said = questions.unreadable.get("memory_mib")
    return None if said == NO_FUNCTION else said


def load(path: str, root: str | None = None) -> bool:
    """Have pynvml use a library, and say whether it carries the simulation's mark.

    Args:
        path: of the library. pynvml would take what the loader finds by name, and not say which file that is.
        root: below which it is, if not below the machine's.

    Raises:
        OSError: the loader does not take it.
    """
    import pynvml

    library = within(root, lambda: ctypes.CDLL(path)) if root else ctypes.CDLL(path)
    pynvml.nvmlLib = library
    try:
        ctypes.c_char.in_dll(library, "gpusmith_simulated")
    except ValueError:
        return False
    return True


def ask_library(path: str, root: str | None = None) -> Answer:
    """Everything that NVML says; for a process of its own, which the library may hang or crash.

    Args:
        path: of the library.
        root: below which it is, if not below the machine's.
    """
    import pynvml

    try:
        simulated = load(path, root)
    except OSError as error:
        return Answer(Nvml(error=str(error)))
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_FunctionNotFound:
        return Answer(Nvml(error="nvmlInitWithFlags is missing"), simulated=simulated)
    except pynvml.NVMLError as error:
        return Answer(Nvml(init_code=error.value, error=words(error)), simulated=simulated)
    nvml = Nvml(
        init_code=0,
        driver_version=_or_none(pynvml.nvmlSystemGetDriverVersion),
        gpus=tuple(gather_gpu(index) for index in range(_or_none(pynvml.nvmlDeviceGetCount) or 0)),
    )
    _or_none(pynvml.nvmlShutdown)
    return Answer(nvml, simulated=simulated)


def _or_none(function: Callable[[], Any]) -> Any:
    import pynvml

    try:
        return function()
    except (pynvml.NVMLError, UnicodeDecodeError):
        return None
