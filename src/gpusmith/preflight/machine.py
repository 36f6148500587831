"""Whether the machine is one to work on: system, GPUs, firmware, space, clock, foreign drivers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import SUPPORTED

from gpusmith.data.models import Model
from gpusmith.errors import Refusal
from gpusmith.expect import foreign, holders, huge_pages, kubelet, mig
from gpusmith.expect import surroundings as around
from gpusmith.expect.host import cannot_set, swap_of_served
from gpusmith.expect.kernels import newest, without_driver
from gpusmith.expect.steps import rejoin
from gpusmith.expect.versions import is_open, is_version, numbers, upstream
from gpusmith.expect.wanted import baseline_of
from gpusmith.node.records import load
from gpusmith.preflight.words import Facts, Tables, Wanted, models_of, refusal, section
from gpusmith.probe.foreign import Foreign
from gpusmith.probe.host import Host
from gpusmith.probe.kubernetes import Kubernetes
from gpusmith.probe.layout import GpuLayout
from gpusmith.probe.memory import Memory
from gpusmith.probe.nvml import Nvml
from gpusmith.probe.packages import Package
from gpusmith.probe.record import SCHEMA, Record
from gpusmith.probe.system import System
from gpusmith.probe.usage import Holder
from gpusmith.problems import Problem
from gpusmith.wording import quoted, shorten

CLOCK_OFFSET_S = 30
"""By which the clocks of node and controller may differ."""


def check_os(facts: Facts, _wanted: Wanted, tables: Tables) -> Iterator[Refusal]:
    """The distribution and its release are in data/compatibility.yml."""
    host = facts["record"]["host"]
    known = tables.versions.operating_systems
    version = str(host.get("os_version") or "")
    # Releases of EL have minor versions, which are not listed; those of Ubuntu are two numbers together.
    if not {version, version.partition(".")[0]} & {
        release for name, release in known if name == host.get("os_id")
    }:
        yield refusal(
            "operating system",
            f"'{host.get('os_id')} {host.get('os_version')}'",
            quoted(f"{name} {release}" for name, release in known),
            "It is not supported yet; install a supported one.",
        )


def check_package_manager(facts: Facts, _wanted: Wanted, _tables: Tables) -> Iterator[Refusal]:
    """Without a backend for it, no repository was asked and no package can be managed."""
    name = facts["package_manager"]
    if name not in SUPPORTED:
        yield refusal(
            "package manager",
            f"'{name}'" if name else "none that this release knows",
            quoted(SUPPORTED),
            "Install a system with one of these, or leave the machine out with -l.",
        )


def check_architecture(facts: Facts, _wanted: Wanted, _tables: Tables) -> Iterator[Refusal]:
    """Nothing has to follow what is due: apt has those of another architecture in the same version, or not at all."""
    found = section(facts["record"], "foreign_packages")
    if found and facts["repositories"]:
        yield refusal(
            "packages of another architecture",
            shorten(list(map(repr, found))),
            "packages of the machine's own architecture only",
            "Find out which programs need them. If none does, remove them with apt; else leave the machine out with -l.",
        )


def check_gpus(facts: Facts, wanted: Wanted, tables: Tables) -> Iterator[Refusal]:
    """GPUs on PCI; NVSwitches are bridges and were never among them. A model that is no row is no reason to refuse a machine."""
    gpus = facts["record"]["pci"]["gpus"]
    rows, found = tables.rows(wanted.node), models_of(facts, wanted, tables)
    name, count = wanted.node.gpu_model, wanted.node.gpu_count
    declared = rows.get(name)
    if declared is None and not gpus:
        yield refusal(
            "GPU model",
            f"'{name}', and no GPU on PCI" if name else "none in the inventory, and no GPU on PCI",
            quoted(rows),
            "Set 'gpusmith_gpu_model' to one of them, or look for the GPUs ('lspci -nn').",
        )
        return
    # A name of the site's own is for GPUs that are no row.
    others = [model for model in found if (model != declared if declared else name and model.listed)]
    if others:
        yield refusal(
            "GPU model",
            ", ".join(f"{_in_words(model)} at {_addresses(model, gpus)}" for model in others),
            f"'{declared.pci_device_id}' ({name})"
            if declared
            else f"'{name}', which is no row of data/gpus.yml",
            _which_model(found, others),
        )
    for model in dict.fromkeys([*found, *([declared] if declared else [])]):
        if model.refused:
            yield refusal(
                "GPU model",
                f"'{model.key}': {model.refused}",
                quoted(key for key, row in rows.items() if not row.refused),
                "Leave the machine out with -l; 'pytest validation' checks a node that others set up.",
            )
    left_out = len(facts["record"]["pci"].get("left_out") or ())
    apart = f", and {left_out} left out by 'gpusmith_gpus_ignored'" if left_out else ""
    if len(gpus) != count:
        yield refusal(
            "GPU count",
            f"{len(gpus)} on PCI{apart}",
            f"{count}",
            "Look for a GPU that fell off ('lspci -nn', 'dmesg'), correct 'gpusmith_gpu_count', or name those not to count"
            " in 'gpusmith_gpus_ignored'.",
        )


def _in_words(model: Model) -> str:
    return f"'{model.pci_device_id}' ({model.key if model.listed else 'unknown to data/gpus.yml'})"


def _addresses(model: Model, gpus: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(gpu["address"] for gpu in gpus if gpu["device_id"].lower() == model.pci_device_id)


def _which_model(found: Sequence[Model], others: Sequence[Model]) -> str:
    """What to do about GPUs that are not the inventory's model."""
    if len(found) > 1:
        return (
            "The machine has GPUs of several models. If all are for jobs, leave 'gpusmith_gpu_model' out; else name those that"
            " are not, such as a display adapter, in 'gpusmith_gpus_ignored'."
        )
    way = (
        ""
        if others[0].listed
        else " To use a model that has no row, leave it out, or add a row to 'gpusmith_gpu_models'."
    )
    return f"Correct 'gpusmith_gpu_model', or look at what was built in ('lspci -nn').{way}"


OURS = frozenset({"nvidia", "nouveau", "nova", "nova_core", "nvidiafb"})
"""Drivers of the kernel for GPUs that give way to NVIDIA's."""


def check_pci_drivers(facts: Facts, _wanted: Wanted, _tables: Tables) -> Iterator[Refusal]:
    """No GPU is set aside for another driver, such as for virtual machines: NVIDIA's would not get it."""
    gpus = (facts["record"]["pci"] or {}).get("gpus") or ()
    aside = [row for row in gpus if row.get("driver") and row["driver"] not in OURS]
    for row in aside:
        yield refusal(
            "PCI driver",
            f"GPU {row['address']} is bound to '{row['driver']}'",
            "GPUs that the NVIDIA driver can have",
            f"Take it from '{row['driver']}' (look at 'ids=' in /etc/modprobe.d and on the kernel's command line) and reboot;"
            f" or leave the GPU out: 'gpusmith_gpus_ignored: [\"{row['address']}\"]'.",
        )


def check_vgpu(facts: Facts, _wanted: Wanted, _tables: Tables) -> Iterator[Refusal]:
    """No GPU is a share that a hypervisor lends: it has the board's PCI ID, and the data centre driver does not drive it."""
    gpus = (facts["record"]["pci"] or {}).get("gpus") or ()
    shares = [row["address"] for row in gpus if row.get("vgpu")]
    if shares:
        yield refusal(
            "virtual GPU",
            f"{', '.join(shares)} is a vGPU, which needs the guest driver that belongs to its hypervisor's (NVIDIA vGPU)",
            "whole GPUs, also those that are passed through",
            "Install that driver yourself, and set 'nvidia_driver_owner: existing'; or leave the machine out with -l.",
        )


FAILS_ON_CGROUP_V1 = (1, 35)
"""Since this release the kubelet's 'failCgroupV1' is true by default (kubernetes/enhancements, KEP-5573)."""


def check_cgroups(facts: Facts, wanted: Wanted, _tables: Tables) -> Iterator[Refusal]:
    """The kubelet starts with the machine's control groups."""
    node, record = wanted.node, facts["record"]
    if record["kubernetes"]["joined"] or not wanted.joins or not node.manages("kubernetes_node"):
        return
    version = numbers(node.kubernetes.version)[:2]
    unified = record["host"]["cgroup_v2"]
    if unified or version < FAILS_ON_CGROUP_V1:
        return
    if node.kubernetes.kubelet_config.get("failCgroupV1") is not False:
        yield refusal(
            "control groups",
            f"{'none' if unified is None else 'cgroup v1'}, with which a kubelet '{node.kubernetes.version}' does not start",
            "cgroup v2",
            "Take 'systemd.unified_cgroup_hierarchy=0' from the kernel's command line and reboot; or set 'failCgroupV1: false' in"
            " 'kubernetes_node_kubelet_config'.",
        )


def check_nouveau(facts: Facts, wanted: Wanted, _tables: Tables) -> Iterator[Refusal]:
    """A loaded nouveau needs a reboot, which has to be allowed."""
    if facts["record"]["module"]["nouveau_loaded"] and wanted.node.reboot == "never":
        yield refusal(
            "nouveau",
            "loaded, so it holds the GPUs until a reboot",
            "not loaded, or a reboot is allowed",
            "Set 'gpusmith_reboot: if_needed', or blacklist nouveau and reboot the machine yourself.",
        )


def check_headers(facts: Facts, _wanted: Wanted, _tables: Tables) -> Iterator[Refusal]:
    """The kernel module can be compiled for the running kernel and the one that boots next, or is there already."""
    running, next_one = facts["record"]["host"]["kernel"], boots_next(facts)
    for kernel in facts["headers_lacking"]:
        if kernel not in (running, next_one):
            continue
        yield refusal(
            "kernel headers",
            f"none for kernel '{kernel}', and no package that brings them",
            f"'/lib/modules/{kernel}/build', or a package in a repository that brings it",
            "Boot the distribution's current kernel, or add a repository with the headers."
            if kernel == running
            else "It boots next, and would do so without a driver: remove that kernel, or add a repository with its headers.",
        )


def old_kernels(facts: Facts) -> list[str]:
    """What a person should know of older kernels without headers; only the boot menu leads to them."""
    needed = (facts["record"]["host"]["kernel"], boots_next(facts))
    return [without_driver(kernel) for kernel in facts["headers_lacking"] if kernel not in needed]


def boots_next(facts: Facts) -> str:
    """Release of the kernel that a boot loader takes by itself."""
    record = facts["record"]
    bootable = [row["release"] for row in record.get("kernels") or () if row["image"]]
    return newest([record["host"]["kernel"], *bootable, *facts["headers_lacking"]])


def surroundings(record: Record, wanted: Wanted) -> list[str]:
    """What a person should know of what else rules the machine."""
    host = replace(baseline_of(wanted.node), node="")
    swap = [
        f"swap is on ({quoted(problem.evidence['swap_areas'])}) and stays on. {problem.next_step.removesuffix('.')}"
        for problem in swap_of_served(record, host)
    ]
    return [
        *around.notes(record),
        *huge_pages.notes(record, host),
        *swap,
    ]


def check_certificate(facts: Facts, wanted: Wanted, _tables: Tables) -> Iterator[Refusal]:
    """A node of a cluster can speak to it."""
    raw = facts["record"]
    record = Record(SCHEMA, host=load(Host, raw["host"]), kubernetes=load(Kubernetes, raw["kubernetes"]))
    until = record.kubernetes.client_expires_unix
    if until is None or not kubelet.expired(record, ""):
        return
    ours = wanted.node.manages("kubernetes_node")
    yield refusal(
        "kubelet's certificate",
        f"expired on {kubelet.day(until)}, so the cluster does not hear of the node",
        "a valid one",
        f"If the node is to come back, {rejoin('NODE') if ours else 'have whoever joined it do so again'}.",
    )


def check_disk(facts: Facts, _wanted: Wanted, _tables: Tables) -> Iterator[Refusal]:
    """Space for packages and images."""
    for path, space in sorted(facts["disk"].items()):
        if space["free_mib"] < space["needed_mib"]:
            yield refusal(
                "disk space",
                f"{space['free_mib']} MiB free for '{path}'",
                f"at least {space['needed_mib']} MiB",
                "Free some, or lower 'preflight_free_space_mib' if you know that it is enough.",
            )


def check_clock(facts: Facts, _wanted: Wanted, _tables: Tables) -> Iterator[Refusal]:
    """The clock is near enough to the controller for certificates."""
    offset = facts["clock_offset_s"]
    if abs(offset) > CLOCK_OFFSET_S:
        yield refusal(
            "clock",
            f"{abs(offset):.0f} s {'ahead of' if offset > 0 else 'behind'} the controller",
            f"at most {CLOCK_OFFSET_S} s apart, or certificates are not valid yet",
            "Let both machines follow a time server.",
        )


def check_parameters(facts: Facts, wanted: Wanted, _tables: Tables) -> Iterator[Refusal]:
    """Role host_baseline can set what the inventory wants of the kernel, which it cannot in every container."""
    record = Record(SCHEMA, system=load(System, facts["record"]["system"]))
    for name, value in cannot_set(record, baseline_of(wanted.node)).items():
        yield refusal(
            "kernel parameter",
            f"'{name}' is '{record.system.sysctl.get(name)}', and this machine cannot set it",
            f"'{value}'" + (" or more" if name in wanted.node.baseline.sysctl_minimum else ""),
            f"Run 'sysctl -w {name}={value}' on the host of this container or virtual machine,"
            " or take the parameter out of 'host_baseline_sysctl' or 'host_baseline_sysctl_minimum' in the inventory.",
        )


def check_huge_pages(facts: Facts, wanted: Wanted, _tables: Tables) -> Iterator[Refusal]:
    """The machine can have the huge pages that the inventory wants."""
    pages = wanted.node.baseline.huge_pages
    if not pages:
        return
    raw = facts["record"]
    memory, node = load(Memory, section(raw, "memory")), load(Kubernetes, raw["kubernetes"])
    record = Record(SCHEMA, memory=memory, kubernetes=node)
    for found, allowed, step in huge_pages.unfitting(record, pages):
        yield refusal("huge pages", found, allowed, step)


def check_trust(facts: Facts, wanted: Wanted, _tables: Tables) -> Iterator[Refusal]:
    """The machine has a trust store to which authorities can be added."""
    if wanted.node.ca_certificates and not facts["trust_program_found"]:
        yield refusal(
            "trust store",
            f"no '{facts['trust_program']}', which adds 'gpusmith_ca_certificates' to it",
            "a machine that has it",
            "Install the operating system's package 'ca-certificates'.",
        )


def _sources(raw: Mapping[str, Any]) -> list[Problem]:
    packages = {name: load(Package, row) for name, row in raw["packages"].items()}
    halves, others = section(raw, "half_packages"), load(Foreign, section(raw, "foreign"))
    record = Record(SCHEMA, packages=packages, half_packages=halves, foreign=others)
    return foreign.sources(record, "")


def check_foreign_driver(facts: Facts, _wanted: Wanted, _tables: Tables) -> Iterator[Refusal]:
    """No driver that came past the package manager."""
    for problem in _sources(facts["record"]):
        folder, version = problem.evidence["sources"], problem.evidence["version"]
        yield refusal(
            "foreign driver",
            f"'{folder}' has sources of driver {version}, of no installed package, which DKMS builds for kernels to come",
            "a driver from packages, or none",
            "Look at 'dkms status' for who added it, and have that removed as it came ('nvidia-uninstall'); then run again.",
        )
    if facts["foreign_driver"]:
        yield refusal(
            "foreign driver",
            quoted(facts["foreign_driver"]) + ", which no package owns",
            "a driver from packages, or none",
            "Remove it with the installer that brought it ('nvidia-uninstall'), then run again.",
        )


def check_witness(facts: Facts, wanted: Wanted, _tables: Tables) -> Iterator[Refusal]:
    """The installed library and the inventory agree on whether the GPUs are simulated."""
    library = facts["record"]["library"]["simulated"]
    inventory = wanted.node.simulated
    if library is not None and library != inventory:
        words = {True: "simulated", False: "real"}
        yield refusal(
            "simulation",
            f"the installed NVIDIA library is {words[library]}",
            f"{words[inventory]}, as the inventory says",
            "Correct 'gpusmith_simulated', or the machine that this host name leads to.",
        )


def check_processes(facts: Facts, wanted: Wanted, _tables: Tables) -> Iterator[Refusal]:
    """Nobody computes on a machine that is to get another driver: libraries and module would no longer go together.

    Only before it joins: site.yml changes no driver of a joined node.
    """
    raw = facts["record"]
    loaded, version = raw["module"].get("loaded_version"), wanted.node.driver.version
    if raw["kubernetes"]["joined"] or not loaded or is_open(version) or is_version(loaded, upstream(version)):
        return
    opened = tuple(load(Holder, row) for row in section(raw, "holders"))
    record = Record(SCHEMA, nvml=load(Nvml, raw["nvml"]), holders=opened)
    found = [
        f"{process.name or 'unknown'} (process {process.pid}, GPU {gpu.index})"
        for gpu in record.nvml.gpus
        for process in gpu.processes or ()
    ]
    computing = {process.pid for gpu in record.nvml.gpus for process in gpu.processes or ()}
    found += [
        f"{row.command} (process {row.pid}, {', '.join(row.devices)})"
        for row in holders.strangers(record, wanted.node.upgrade.stop_units)
        if row.pid not in computing
    ]
    if found:
        yield refusal(
            "GPU processes",
            f"{shorten(found)} with driver {loaded}",
            f"none while driver {version} replaces it",
            "Let them end, or stop them; or leave the machine out with -l.",
        )


def check_mig(facts: Facts, _wanted: Wanted, _tables: Tables) -> Iterator[Refusal]:
    """No GPU is in MIG mode but by gpusmith. If the driver is not loaded yet, role nvidia_driver asks after it has loaded it."""
    row = facts["record"].get("gpu_layout")
    layout = load(GpuLayout, row) if row else None
    record = Record(SCHEMA, nvml=load(Nvml, facts["record"]["nvml"]), gpu_layout=layout)
    divided = mig.divided(record, "")
    if divided:
        index = ",".join(str(problem.evidence["gpu"]) for problem in divided)
        yield refusal(
            "MIG mode",
            f"on, or on after the next reset, for GPU {index.replace(',', ', ')}",
            "off, or on by 'gpusmith_gpu_sharing: mig'",
            f"Empty the machine of GPU jobs, run 'nvidia-smi -i {index} -mig 0' on it, then 'nvidia-smi -i {index} --gpu-reset'.",
        )
