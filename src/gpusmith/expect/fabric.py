"""The NVSwitch fabric: who needs the fabric manager, and whether every GPU has joined."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpusmith.data.models import Model
from gpusmith.expect import gpus, packages, services, steps, versions
from gpusmith.expect.wanted import Driver
from gpusmith.probe.kernels import FABRIC
from gpusmith.probe.record import Record
from gpusmith.problems import Cure, Problem

WHY = "without it CUDA cannot start on a machine with NVSwitches"
WHOLE_BOARD = 8
"""GPUs of an HGX board that has NVSwitches; those with fewer connect their GPUs directly."""
PACKAGE = re.compile(r"nvidia-fabric-?manager(-\d+)?")
"""Its name carries the branch in NVIDIA's repository up to 575, and always in Ubuntu's archive; on EL it had one dash more."""
JOINING = (None, "not_started", "in_progress")


def models_of(record: Record, wanted: Driver) -> list[Model]:
    """Models of the GPUs on PCI; the inventory's where there are none."""
    return gpus.of(record, wanted.models) or ([wanted.model] if wanted.model else [])


def needed(record: Record, wanted: Driver) -> bool:
    """Whether the fabric manager must run: by the setting; for auto, by NVSwitches on PCI, or what manages them.

    Where none are visible, a whole board has lost them: CUDA does not start without. A board of four GPUs has none, and a virtual
    machine may have got GPUs of a board whose switches somebody else manages. Without GPUs an image is baked, for the model's.
    """
    if wanted.fabric_manager != "auto":
        return wanted.fabric_manager == "enabled"
    if record.pci.nvswitches or record.pci.switch_managers:
        return True
    count = len(record.pci.gpus)
    lost = count >= WHOLE_BOARD and not record.host.virtual
    return (lost or not count) and any(model.fabric_manager for model in models_of(record, wanted))


def by_subnet(record: Record, wanted: Driver) -> bool:
    """Whether the fabric manager needs the NVLink subnet manager beside it."""
    of_model = any(model.nvlink_subnet_manager for model in models_of(record, wanted))
    return needed(record, wanted) and (of_model or bool(record.pci.switch_managers))


def with_subnet_manager(record: Record, wanted: Driver, files: Mapping[str, str] | None = None) -> Driver:
    """What is wanted, with the subnet manager and the files for it where the machine needs it."""
    if not by_subnet(record, wanted):
        return wanted
    layout = wanted.layout
    others = (*layout.others, *(name for name in layout.subnet_manager if name not in layout.others))
    return replace(wanted, layout=replace(layout, others=others), files={**wanted.files, **(files or {})})


def tools(record: Record, wanted: Driver) -> list[str]:
    """What the fabric manager needs of the operating system: it looks for its ports with 'ibstat', and ends without."""
    return list(wanted.layout.subnet_manager_tools) if by_subnet(record, wanted) else []


def modules_to_load(record: Record, wanted: Driver) -> list[str]:
    """Modules that are not loaded by which the fabric manager reaches the switches."""
    if not by_subnet(record, wanted):
        return []
    return [name for name in FABRIC if not record.system.modules.get(name)]


def modules(record: Record, wanted: Driver) -> list[Problem]:
    """Those modules, now and at the next boot."""
    if not by_subnet(record, wanted):
        return []
    node, absent = wanted.node, modules_to_load(record, wanted)
    rows = record.boot.modules if record.boot else {}
    found = [
        Problem(
            f"Node '{node}': module '{name}' is not loaded, without which the fabric manager does not reach the NVLink switches.",
            f"Run site.yml for the node, or 'modprobe {name}' on '{node}' for the reason.",
            {"module": name},
            Cure.SERVICES,
        )
        for name in absent
    ]
    return found + [
        Problem(
            f"Node '{node}': the fabric manager needs module '{name}', and '{row.forbidden_by}' keeps boots from loading it.",
            f"Take the module out of '{row.forbidden_by}' on '{node}'.",
            {"module": name},
        )
        for name, row in rows.items()
        if name in FABRIC and row.forbidden_by
    ]


def _management(record: Record, wanted: Driver) -> list[Problem]:
    """Who manages switches that are no devices of the bus."""
    if not by_subnet(record, wanted):
        return []
    node, found = wanted.node, modules(record, wanted)
    if not record.pci.switch_managers:
        found.append(
            Problem(
                f"Node '{node}': no network function manages the NVLink switches of its GPUs.",
                f"Look for 'SW_MNG' in 'lspci -vv -d 15b3:' on '{node}'; what is not there is a matter for its vendor,"
                " or, in a virtual machine, for whoever rents it out.",
                {"switch_managers": []},
            )
        )
    return found + packages.missing(record, node, list(wanted.layout.subnet_manager))


def service(record: Record, node: str) -> list[Problem]:
    """The fabric manager's service."""
    return services.service(record, node, "nvidia-fabricmanager", WHY)


def _switch_errors(record: Record, node: str) -> list[Problem]:
    """Fatal errors that NVSwitches reported; what they call non-fatal they survive."""
    if not record.pci.nvswitches:
        return []
    if record.sxids is None:
        cause = f"Node '{node}': the kernel's log could not be read, which has the NVSwitches' errors."
        return [Problem(cause, "Look at 'journalctl -b -k'.")]
    fatal = Counter((row.pci, row.code) for row in record.sxids if row.fatal)
    found = []
    for (address, code), count in sorted(fatal.items()):
        said = [row.message for row in record.sxids if (row.pci, row.code) == (address, code)][-1]
        found.append(
            Problem(
                f"Node '{node}': the NVSwitch at PCI {address} reported SXid {code}, which is fatal, {count} times: {said}.",
                f"Drain '{node}' and reset all its GPUs and switches ('nvidia-smi --gpu-reset') or reboot; if it comes back, have"
                " the baseboard looked at.",
                {f"sxid_{code}_{address}": {"count": count, "message": said}},
            )
        )
    return found


def _switches(record: Record, node: str, model: Model | None) -> list[Problem]:
    if model is None or model.nvswitches <= len(record.pci.nvswitches):
        return []
    # A virtual machine with some of a board's GPUs gets some of its switches, and the board of four GPUs has none.
    whole = len(record.pci.gpus) >= WHOLE_BOARD
    if not whole and (record.host.virtual or not record.pci.nvswitches):
        return []
    return [
        Problem(
            f"Node '{node}': {len(record.pci.nvswitches)} NVSwitches are on the PCI bus,"
            f" an HGX board of model '{model.key}' has {model.nvswitches}.",
            f"Look at 'lspci -d 10de:' on '{node}'; a missing switch is a matter for the machine's vendor.",
            {"nvswitches": list(record.pci.nvswitches)},
        )
    ]


def _manager(record: Record, wanted: Driver) -> list[Problem]:
    loaded = record.module.loaded_version
    manager = next((each for name, each in record.packages.items() if PACKAGE.fullmatch(name)), None)
    if manager is None or loaded is None or versions.is_version(manager.version, loaded):
        return []
    # Where it has the inventory's version, the loaded module is the one that is wrong.
    right = versions.is_version(manager.version, wanted.version)
    cure = Cure.REBOOT if right else Cure.UPGRADE if record.kubernetes.joined else Cure.PACKAGES
    return [
        Problem(
            f"Node '{wanted.node}': fabric manager is {packages.plain(manager.version, loaded)}, the loaded driver {loaded};"
            " they must be equal.",
            {
                Cure.REBOOT: "Drain the node and reload the module or reboot.",
                Cure.UPGRADE: f"To make them equal, {steps.upgrade_driver(wanted.node, wanted.version)}.",
                Cure.PACKAGES: "Run site.yml.",
            }[cure],
            {"fabric_manager": manager.version},
            cure,
        )
    ]


def joined(record: Record, node: str) -> list[Problem]:
    """Every GPU that answers has joined the fabric."""
    found = []
    for gpu in record.nvml.gpus:
        if gpu.error is not None or (
            gpu.fabric_state == "completed" and gpu.fabric_status in (None, "success")
        ):
            continue
        state = f"{gpu.fabric_state}, {gpu.fabric_status}" if gpu.fabric_status else str(gpu.fabric_state)
        found.append(
            Problem(
                f"Node '{node}': {gpu.label} has not joined the NVLink fabric: {state}.",
                f"Read 'journalctl -u nvidia-fabricmanager' on '{node}'.",
                {"gpu": gpu.index, "fabric_state": gpu.fabric_state, "fabric_status": gpu.fabric_status},
                Cure.WAIT if gpu.fabric_state in JOINING else Cure.PERSON,
            )
        )
    return found


def tells_state(models: Sequence[Model]) -> bool:
    """Whether NVML reports the fabric of these GPUs."""
    return any(model.fabric_state_in_nvml for model in models)


def waiting(record: Record, wanted: Driver) -> list[Problem]:
    """GPUs that wait for a fabric which nothing on this node would complete, where no fabric manager is needed.

    Those that have none say 'not supported'; in a virtual machine, whoever manages the switches has completed it.
    """
    if not tells_state(models_of(record, wanted)):
        return []
    return [
        Problem(
            f"Node '{wanted.node}': {gpu.label} waits for its NVLink fabric, and the node shows no NVSwitches.",
            f"Look for NVSwitches with 'lspci -d 10de:' on '{wanted.node}'; in a virtual machine, ask whose host manages them."
            " If the fabric manager has to run here, set 'nvidia_driver_fabric_manager: enabled'.",
            {"gpu": gpu.index, "fabric_state": gpu.fabric_state},
        )
        for gpu in record.nvml.gpus
        if gpu.error is None and gpu.fabric_state == "in_progress"
    ]


def problems(record: Record, wanted: Driver) -> list[Problem]:
    """All of it, on a node that needs the fabric manager."""
    models = models_of(record, wanted)
    return [
        *service(record, wanted.node),
        *_management(record, wanted),
        *_switches(record, wanted.node, wanted.model or (models[0] if models else None)),
        *_switch_errors(record, wanted.node),
        *_manager(record, wanted),
        *(joined(record, wanted.node) if tells_state(models) else []),
    ]
