"""The record of this machine: every section asked once, side by side.

It never raises and changes nothing. What could not be found out is None, with the reason in `errors`.
"""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any, Callable, TypeVar

from gpusmith.probe import (
    allocations,
    boot,
    cdi,
    clock,
    containerd,
    cuda,
    dev,
    foreign,
    host,
    kernels,
    kubernetes,
    layout,
    library,
    log,
    managed,
    memory,
    module,
    mps,
    nvml,
    own,
    packages,
    pci,
    programs,
    services,
    surroundings,
    system,
    taken,
    trust,
    usage,
)  # fmt: skip
from gpusmith.probe.child import Child, within
from gpusmith.probe.record import SCHEMA, Record

# Without persistence mode a real driver initialises every GPU at nvmlInit, about a second each.
NVML_TIMEOUT_S = 30.0
DEVICES_TIMEOUT_S = 10.0

T = TypeVar("T")


def collect(nvml_timeout_s: float = NVML_TIMEOUT_S) -> Record:
    """Gather the record of this machine. A section that failed is None in it, which the loader makes empty.

    Args:
        nvml_timeout_s: seconds that the NVIDIA management library may take in all.
    """
    errors: list[str] = []

    def safely(name: str, work: Callable[[], T]) -> T | None:
        try:
            return work()
        except Exception as error:  # noqa: BLE001 - a probe that dies tells less than one that has a hole
            errors.append(f"{name}: {type(error).__name__}: {error}")
            return None

    # What takes longest runs beside all that follows.
    asked_containerd, asked_libraries, asked_packages = containerd.ask(), library.ask(), packages.ask()
    asked_services, asked_module, asked_kubelet = services.ask(), module.ask(), kubernetes.ask()
    asked_programs = programs.ask()
    asked_log, asked_clock = log.ask(), clock.ask()
    asked_kernels = safely("kernels", kernels.ask)
    # Before NVML starts, which makes missing device nodes anew.
    devices = safely("dev", dev.gather)
    paths = safely("library", lambda: library.find(asked_libraries, errors)) or {"nvidia-ml": [], "cuda": []}
    inside = safely("driver's container", lambda: library.in_container(paths))
    root, path = inside or (None, next(iter(paths["nvidia-ml"]), None))
    if root:
        # The device nodes are where the driver is.
        devices, _problem = Child(lambda: within(str(root), dev.gather)).result(DEVICES_TIMEOUT_S)
    given = safely("allocations", lambda: allocations.read(errors))
    asked_holders = safely("holders", usage.ask)
    child = safely("nvml", lambda: Child(lambda: nvml.ask_library(str(path), root))) if path else None

    found: dict[str, Any] = {
        "host": safely("host", host.gather),
        "pci": safely("pci", pci.gather),
        "dev": devices,
        "cuda": safely("cuda", cuda.gather),
        "surroundings": safely("surroundings", surroundings.gather),
        "memory": safely("memory", memory.gather),
        "managed_files": safely("managed files", managed.gather),
        "marked_files": safely("marked files", managed.marked),
        "trust": safely("trust store", trust.gather),
        "gpu_layout": safely("GPU layout", layout.read),
        "mps": safely("MPS", mps.gather),
    }
    boots = found["boot"] = safely("boot", boot.gather)
    found["system"] = safely("system", lambda: system.gather(boots))
    database = packages.database(asked_packages)
    asked_owners = safely("programs", lambda: programs.ask_owners(asked_programs, database, errors))
    # While containerd still writes its configuration, which nearly always names these folders.
    specs = safely("cdi", lambda: cdi.gather(cdi.CDI_FOLDERS))
    runtime = found["containerd"] = safely("containerd", lambda: containerd.gather(asked_containerd, errors))
    folders = runtime.effective.cdi_spec_dirs if runtime else None
    if folders and folders != cdi.CDI_FOLDERS:
        specs = safely("cdi", lambda: cdi.gather(folders))
    found["cdi"] = specs
    found["packages"] = safely("packages", lambda: packages.gather(asked_packages, errors))
    found["half_packages"] = safely("half packages", lambda: packages.halves(asked_packages, errors))
    found["foreign_packages"] = safely(
        "foreign packages", lambda: tuple(packages.of_foreign_architectures(asked_packages, errors))
    )
    found["foreign"] = safely("foreign driver", foreign.gather)
    found["package_database"] = database
    found["package_locks"] = safely("package locks", packages.locks)
    found["services"] = safely("services", lambda: services.gather(asked_services, errors))
    found["programs"] = safely("programs", lambda: programs.gather(asked_owners or {}, database, errors))
    found["clock"] = safely("clock", lambda: clock.gather(asked_clock))
    found["kubernetes"] = safely("kubernetes", lambda: kubernetes.gather(asked_kubelet, errors))
    if asked_kernels is not None:
        found["kernels"] = safely("kernels", lambda: kernels.gather(asked_kernels, errors))
    found["taken"] = safely("taken modules", lambda: taken.gather(errors))
    driver = safely("module", lambda: module.gather(asked_module, errors))

    answer, problem = child.result(nvml_timeout_s) if child else (None, None if path else "library not found")
    answer = answer or nvml.Answer(nvml.Nvml(error=problem))
    found["nvml"] = answer.nvml
    found["allocations"] = safely("allocations", lambda: allocations.gather(given, errors))
    if asked_holders is not None:
        found["holders"] = safely("holders", lambda: usage.of_gpus(asked_holders, errors))
    libraries = safely("library", lambda: library.gather(paths, answer.simulated, root))
    found["library"] = libraries
    version = driver.loaded_version if driver else None
    simulated = libraries.simulated if libraries else None
    said = safely("kernel log", lambda: log.gather(asked_log, version, simulated, errors))
    if said:
        found.update(log=said.log, xids=said.xids, sxids=said.sxids, xids_truncated=said.truncated)
    found["own"] = own.gather(errors)
    found["module"] = replace(driver, loaded_unix=said.loaded_unix) if driver and said else driver
    return Record(schema=SCHEMA, **{"log": None, **found}, errors=tuple(errors))


def as_json(record: Record) -> str:
    """The record as one line of JSON. A trailing underscore, as that of `class_`, is only Python's."""
    plain = asdict(record, dict_factory=lambda rows: {key.rstrip("_"): value for key, value in rows})
    return json.dumps(plain, sort_keys=True, default=sorted)
