"""The driver: packages, module, libraries, NVML, services and device nodes are one version and all there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpusmith.data import compatibility
from gpusmith.data.models import Model
from gpusmith.expect import (
    choice,
    components,
    devices,
    extra_modules,
    fabric,
    files,
    kernels,
    layouts,
    libraries,
    packages,
    parameters,
    services,
    signatures,
    steps,
    taken,
    versions,
    wanted,
)
from gpusmith.expect.layouts import Unmet
from gpusmith.expect.wanted import Driver
from gpusmith.node.facts import RESET_STEP
from gpusmith.probe.record import Record
from gpusmith.problems import Cure, Problem
from gpusmith.wanted.node import NodeWanted
from gpusmith.wording import quoted

IDENTITY = ("uuid", "name", "pci", "minor", "memory_mib")
PASSES = frozenset({Cure.WAIT, Cure.LOAD, Cure.SERVICES})
"""What can vanish by itself while services start."""


def asked_for(record: Record, host: NodeWanted, own: Mapping[str, Any]) -> Driver:
    """The driver that is wanted on this machine.

    Args:
        record: of the node.
        host: what the inventory wants of it.
        own: what role nvidia_driver adds: layouts (rows of package names by layout, of the operating system), files, daemon_files
            (only where the unit of the driver's daemon has to be changed), dracut_files (only where dracut is) and fabric_files
            (only where the fabric manager needs modules of the kernel); and, where the version is a branch or the latest one,
            chosen (what it is in this run) or unchosen (why nothing was).

    Raises:
        Unmet: the version is none, or none was chosen, or there are no such packages.
    """
    version = _version(record, host, own)
    layout = layouts.of_machine(own["layouts"], host.driver, version, kernels.bootable(record))
    # It is for boots: where pods may run systemd does not read it, and the daemon would look like one that was changed.
    ours = layout.daemon_drop_in and not record.kubernetes.joined
    written = {**(own.get("files") or {}), **((own.get("daemon_files") or {}) if ours else {})}
    written |= (own.get("dracut_files") or {}) if record.surroundings.dracut else {}
    want = wanted.driver_of(host, version=version, layout=layout, files=written)
    want = components.resolved(record, want)
    return fabric.with_subnet_manager(record, want, own.get("fabric_files"))


def _version(record: Record, host: NodeWanted, own: Mapping[str, Any]) -> str:
    """The exact version that is meant.

    Raises:
        Unmet: what is asked for is no version, or none was chosen.
    """
    asked = host.driver.version
    version = choice.meant(record, asked, str(own.get("chosen") or ""))
    if versions.is_open(version) or (versions.is_open(asked) and own.get("unchosen")):
        if record.kubernetes.joined:
            raise Unmet(
                f"'nvidia_driver_version' is '{asked}', and the node, which serves, has no such driver.",
                f"site.yml never changes it: {steps.upgrade_driver(host.name, asked)}.",
            )
        raise Unmet(
            f"'nvidia_driver_version' is '{asked}', and no exact version of it was chosen.",
            str(own.get("unchosen") or "Give an exact one, such as '580.178.04'."),
        )
    if not versions.FULL_DRIVER.match(version):
        raise Unmet(
            f"'nvidia_driver_version' is '{version}', which is no version.",
            "Give an exact one, such as '580.178.04', a branch, such as '580', or 'latest'.",
        )
    return version


def flavour(record: Record, wanted: Driver) -> str:
    """Which kernel module the machine gets: the open one, unless a GPU is too old for it.

    Raises:
        Unmet: the setting or the mixture of GPUs leaves no module that drives them all.
    """
    setting, models = wanted.module_flavour, fabric.models_of(record, wanted)
    chosen = kind_of(setting, models)
    branches = compatibility.load().module_kinds.get(chosen)
    if branches is not None and not branches.has(layouts.branch_of(wanted.version)):
        raise Unmet(
            f"Driver {wanted.version} has no {chosen} kernel module.",
            f"Set 'nvidia_driver_version' to {branches.words}, or correct 'nvidia_driver_module_flavour'.",
        )
    return chosen


def kind_of(setting: str, models: Sequence[Model]) -> str:
    """The kind of kernel module that drives all GPUs.

    Raises:
        Unmet: there is none, or the setting is another.
    """
    unsupported = sorted({model.name for model in models if model.open_module == "unsupported"})
    required = sorted({model.name for model in models if model.open_module == "required"})
    if setting == "auto":
        if unsupported and required:
            raise Unmet(
                f"No kernel module drives both '{unsupported[0]}' and '{required[0]}'.",
                "Put them into different nodes.",
            )
        return "proprietary" if unsupported else "open"
    if setting == "open" and unsupported:
        raise Unmet(
            f"The open kernel module does not support '{unsupported[0]}'.",
            "Set 'nvidia_driver_module_flavour: auto'.",
        )
    if setting == "proprietary" and required:
        raise Unmet(
            f"Only the open kernel module supports '{required[0]}'.",
            "Set 'nvidia_driver_module_flavour: auto'.",
        )
    return setting


def must_have(record: Record, wanted: Driver) -> list[str]:
    """Packages that have the driver's version.

    Raises:
        Unmet: the layout has no package for what the machine needs.
    """
    parts_known(record, wanted)
    return packages.named(wanted, flavour(record, wanted), fabric.needed(record, wanted))


def parts_known(record: Record, wanted: Driver) -> None:
    """The layout has all that the machine needs besides the driver itself.

    Raises:
        Unmet: it has not.
    """
    if fabric.needed(record, wanted) and wanted.layout.demanded and not wanted.layout.fabric_manager:
        raise Unmet(
            "The node has NVSwitches, and this package layout has no fabric manager.",
            "Use NVIDIA's repository with 'nvidia_driver_package_layout: nvidia'.",
        )
    if fabric.by_subnet(record, wanted) and wanted.layout.demanded and not wanted.layout.subnet_manager:
        raise Unmet(
            "The node's fabric manager needs the NVLink subnet manager ('nvlsm'), and this package layout has none.",
            "Use NVIDIA's repository with 'nvidia_driver_package_layout: nvidia'.",
        )
    known = {components.AUTO, *wanted.layout.components}
    unknown = [name for name in wanted.components if name not in known]
    if unknown and wanted.layout.demanded:
        raise Unmet(
            f"This package layout has no component {quoted(unknown)} of driver {wanted.version}.",
            "Correct 'nvidia_driver_components', or use NVIDIA's repository with 'nvidia_driver_package_layout: nvidia'.",
        )


def unversioned(record: Record, wanted: Driver) -> list[str]:
    """Packages that must be there with versions of their own: helpers, and modules that come built.

    Raises:
        Unmet: no module drives all GPUs.
    """
    return [*wanted.layout.others, *wanted.layout.ready.get(flavour(record, wanted), ())]


def to_release(record: Record, wanted: Driver) -> list[str]:
    """Packages whose holds go before another version of the driver comes; a module that comes built for a kernel goes with it.

    Raises:
        Unmet: no module drives all GPUs.
    """
    wrong = packages.outdated(record, wanted)
    ready = kernels.built(record) if wrong and wanted.layout.ready.get(flavour(record, wanted)) else ()
    return sorted({*wrong, *ready})


def displaced(record: Record, wanted: Driver) -> list[str]:
    """Packages that go when the driver comes: parts of another branch that have files of the wanted one's.

    Ubuntu's 580 packages of the fabric manager of late 2025 depend on their branch's nvidia-kernel-common
    (https://bugs.launchpad.net/bugs/2129682), which conflicts with another branch's. The lab's older ones have no such relation
    and share '/usr/bin/nv-fabricmanager', so that dpkg fails. That is a model: Ubuntu's packages themselves were not read.

    Raises:
        Unmet: no module drives all GPUs.
    """
    layout, coming = wanted.layout, set(must_have(record, wanted))
    besides = {name for each in packages.counterparts(record, wanted) for name in each["names"]}
    single = (coming | besides) & {layout.fabric_manager, *layout.components.values()}
    return sorted(
        name
        for name in packages.outdated(record, wanted)
        if name not in coming and single & set(layouts.in_another_branch(name, wanted.version))
    )


def to_remove(record: Record, wanted: Driver) -> list[str]:
    """Packages that an installation of the driver leaves behind: of another version by name, or of the other kind of module.

    Raises:
        Unmet: no module drives all GPUs.
    """
    other = packages.of_other_kind(record, wanted, flavour(record, wanted))
    return sorted({*packages.leftovers(record, wanted), *other})


def to_be_left(record: Record, wanted: Driver) -> list[str]:
    """Those that are there now and are left behind once the wanted driver has come, if nothing removes them before.

    Raises:
        Unmet: no module drives all GPUs.
    """
    other = packages.of_other_kind(record, wanted, flavour(record, wanted))
    return sorted({*packages.of_others(record, wanted), *other})


# --- versions ------------------------------------------------------------------------------------------------------


def _evidence(record: Record, wanted: Driver) -> dict[str, Any]:
    seen = {
        **libraries.seen(record),
        "module file": record.module.installed_version,
        "loaded module": record.module.loaded_version,
        "driver of NVML": record.nvml.driver_version,
    }
    return {
        "wanted": wanted.version,
        "packages": {
            name: packages.plain(version, wanted.version)
            for name, version in packages.of_driver(record, wanted).items()
        },
        **{name.replace(" ", "_"): version for name, version in seen.items()},
    }


def package_versions(record: Record, wanted: Driver, evidence: dict[str, Any]) -> list[Problem]:
    """Packages are there, in the wanted version."""
    node, found = wanted.node, []
    if wanted.layout.demanded:
        names = [*must_have(record, wanted), *unversioned(record, wanted), *fabric.tools(record, wanted)]
        found += packages.missing(record, node, names)
    elif not evidence["packages"]:
        found.append(
            Problem(
                f"Node '{node}': no driver package is installed.",
                "Install it: site.yml.",
                evidence,
                Cure.PACKAGES,
            )
        )
    wrong = packages.outdated(record, wanted)
    if wrong:
        named = packages.in_words(wrong, wanted.version)
        step, cure = libraries.version_step(record, wanted)
        found.append(
            Problem(
                f"Node '{node}': driver package {named}, the inventory wants {wanted.version}.",
                step,
                evidence,
                cure,
            )
        )
    return [*found, *packages.left_behind(record, wanted)]


def loaded_module(record: Record, wanted: Driver, evidence: dict[str, Any]) -> list[Problem]:
    """The module is loaded."""
    module = record.module
    if module.loaded_version is not None:
        return []
    cause = (
        f"Node '{wanted.node}': the driver is not loaded, there is no kernel module 'nvidia' in kernel {record.host.kernel}"
        f" (module file: {module.installed_version or 'none'})"
    )
    step = f"Load it with 'modprobe nvidia' on '{wanted.node}' and read 'journalctl -k' for the reason, or run site.yml."
    cure = Cure.LOAD
    if module.blocked_by:
        cause += f": file '{module.blocked_by}' of an upgrade that was given up keeps it from being loaded"
        step, cure = f"Reboot '{wanted.node}', which takes that file away.", Cure.REBOOT
    if module.installed_version is None:
        cure = Cure.PACKAGES
    return [Problem(f"{cause}.", step, evidence, cure)]


def module_versions(record: Record, wanted: Driver, evidence: dict[str, Any]) -> list[Problem]:
    """Loaded module and module file have the wanted version."""
    node, version, module, found = wanted.node, versions.upstream(wanted.version), record.module, []
    if module.loaded_version not in (None, version):
        found.append(
            Problem(
                f"Node '{node}': the loaded module is {module.loaded_version}, the inventory wants {wanted.version}.",
                "Reload the module or reboot.",
                evidence,
                Cure.REBOOT,
            )
        )
    if module.installed_version not in (None, version):
        step, cure = f"Look at 'dkms status' on '{node}'.", Cure.PERSON
        if packages.outdated(record, wanted):
            step, cure = libraries.version_step(record, wanted)
        found.append(
            Problem(
                f"Node '{node}': the module file is {module.installed_version}, the inventory wants {wanted.version};"
                " the next boot loads that one.",
                step,
                evidence,
                cure,
            )
        )
    if module.installed_version is None and module.loaded_version is not None:
        found.append(
            Problem(
                f"Node '{node}': there is no module file for kernel {record.host.kernel}, so the next boot has no driver.",
                "Look at 'dkms status' and at the kernel's headers on the node, or run site.yml.",
                evidence,
                Cure.PACKAGES,
            )
        )
    return found


def module_flavour(record: Record, wanted: Driver, evidence: dict[str, Any]) -> list[Problem]:
    """The module is the open one or the proprietary one, as the GPUs and the inventory want it."""
    node, own = wanted.node, record.module.flavour
    try:
        kind = flavour(record, wanted)
    except Unmet as error:
        return [Problem(f"Node '{node}': {error.message}", error.hint, evidence)]
    if own in (None, kind):
        return packages.other_kind(record, wanted, kind)
    if record.kubernetes.joined:
        step, cure = (
            f"Correct 'nvidia_driver_module_flavour', or {steps.change_driver(node)}.",
            Cure.UPGRADE,
        )
    elif record.module.loaded_version is not None:
        step, cure = "Reload the module or reboot.", Cure.REBOOT
    else:
        step, cure = "Run site.yml, which installs that module.", Cure.PACKAGES
    return [
        Problem(
            f"Node '{node}': the module is the {own} one, wanted is the {kind} one ('nvidia_driver_module_flavour').",
            step,
            evidence,
            cure,
        )
    ]


def nouveau(record: Record, wanted: Driver, evidence: dict[str, Any]) -> list[Problem]:
    """The free driver does not hold the GPUs."""
    if not record.module.nouveau_loaded:
        return []
    return [
        Problem(
            f"Node '{wanted.node}': module 'nouveau' is loaded.",
            "Reboot it after role nvidia_driver has run, which keeps the module off.",
            evidence,
            Cure.REBOOT,
        )
    ]


def driver_versions(record: Record, wanted: Driver) -> list[Problem]:
    """Package = libraries = module file = loaded module = the inventory's version."""
    evidence = _evidence(record, wanted)
    return [
        *package_versions(record, wanted, evidence),
        *loaded_module(record, wanted, evidence),
        *libraries.files(record, wanted, evidence),
        *libraries.library_versions(record, wanted, evidence),
        *libraries.of_nvml(record, wanted, evidence),
        *module_versions(record, wanted, evidence),
        *libraries.missing_parts(record, wanted, evidence),
        *module_flavour(record, wanted, evidence),
        *nouveau(record, wanted, evidence),
    ]


# --- GPUs ----------------------------------------------------------------------------------------------------------


def nvml(record: Record, node: str) -> list[Problem]:
    """NVML starts, and every GPU answers."""
    if not record.nvml_usable:
        return [
            Problem(
                f"Node '{node}': NVML does not start: {record.nvml.error or 'no reason given'} (code {record.nvml.init_code}).",
                f"Run 'nvidia-smi' on '{node}'; see nodes.driver-versions for the versions.",
                {"nvml_code": record.nvml.init_code, "nvml_error": record.nvml.error},
                Cure.WAIT,
            )
        ]
    # A lost GPU has no handle that could be asked for its address: it is one of those that no other GPU has.
    silent = sorted(
        {gpu.address for gpu in record.pci.gpus} - {gpu.pci for gpu in record.nvml.gpus if gpu.pci}
    )
    place = f" (PCI {' or '.join(silent)})" if silent else ""
    found = [
        Problem(
            f"Node '{node}': {gpu.label}{'' if gpu.pci else place} does not answer: {gpu.error}.",
            RESET_STEP,
            {"gpu": gpu.index, "uuid": gpu.uuid, "pci": gpu.pci or silent, "error": gpu.error},
        )
        for gpu in record.nvml.gpus
        if gpu.error
    ]
    for gpu in record.nvml.gpus:
        unknown = {name: gpu.unreadable[name] for name in IDENTITY if name in gpu.unreadable}
        if unknown and not gpu.error:
            words = "; ".join(f"{name}: {why}" for name, why in unknown.items())
            found.append(
                Problem(
                    f"Node '{node}': {gpu.label} does not tell what it is: {words}.",
                    RESET_STEP,
                    {"gpu": gpu.index, "uuid": gpu.uuid, "unreadable": unknown},
                )
            )
    return found


def counts(record: Record, node: str) -> list[Problem]:
    """PCI, NVML and /dev show the same number of GPUs. How many the inventory wants, only the suite asks."""
    pci, known, minors = len(record.pci.gpus), len(record.nvml.gpus), len(record.dev.gpu_minors)
    if not record.nvml_usable or pci == known == minors:
        return []
    return [
        Problem(
            f"Node '{node}': PCI has {pci} GPUs, NVML {known}, /dev {minors}.",
            f"Look at 'lspci -d 10de:' and 'journalctl -k -g NVRM' on '{node}'.",
            {"pci": pci, "nvml": known, "dev": minors},
            Cure.WAIT,
        )
    ]


# --- all of it -----------------------------------------------------------------------------------------------------


def running(record: Record, wanted: Driver) -> list[Problem]:
    """What must run and answer on a machine that has GPUs."""
    node = wanted.node
    daemon = (
        services.service(record, node, "nvidia-persistenced", services.WHY_PERSISTENCED)
        if wanted.layout.demanded
        else services.persistence(record, node)
    )
    needs_fabric = fabric.needed(record, wanted)
    return [
        *daemon,
        *services.loader(record, node),
        *(fabric.service(record, node) if needs_fabric else []),
        *fabric.modules(record, wanted),
        *devices.missing_nodes(record, node),
        *extra_modules.problems(record, wanted),
        *_silent(record, node),
        *(_joining(record, wanted) if needs_fabric else []),
        *counts(record, node),
    ]


def _silent(record: Record, node: str) -> list[Problem]:
    """GPUs that do not answer. What else they do not tell, no role can change."""
    return [
        problem for problem in nvml(record, node) if not record.nvml_usable or problem.evidence.get("error")
    ]


def _joining(record: Record, wanted: Driver) -> list[Problem]:
    return fabric.joined(record, wanted.node) if fabric.tells_state(fabric.models_of(record, wanted)) else []


def problems(record: Record, wanted: Driver) -> list[Problem]:
    """Every way in which the node's driver is not as wanted: what role nvidia_driver answers for.

    Raises:
        Unmet: no driver can be what the settings ask for.
    """
    must_have(record, wanted)
    found = [
        *driver_versions(record, wanted),
        *kernels.problems(record, wanted),
        *taken.problems(record, wanted.node),
        *signatures.problems(record, wanted),
        *packages.not_held(packages.unheld(record, wanted), wanted.node),
        *of_settings(record, wanted),
    ]
    if record.pci.gpus:
        return found + running(record, wanted)
    # An image is baked without GPUs: nothing can be loaded, and nothing need be.
    absent = Problem(
        f"Node '{wanted.node}': there is no NVIDIA GPU on PCI.",
        f"Look at 'lspci -d 10de:' on '{wanted.node}'.",
    )
    return [*(row for row in found if row.cure not in (Cure.LOAD, Cure.REBOOT)), absent]


def of_settings(record: Record, wanted: Driver) -> list[Problem]:
    """Parameters and files that are not as the inventory sets them: no version of the driver can be blamed for these."""
    return [
        *parameters.problems(record, wanted),
        *files.problems(record, wanted.node, wanted.files),
    ]


def may_pass(found: Iterable[Problem]) -> bool:
    """Whether all problems are of a kind that can vanish by itself while services start."""
    return all(problem.cure in PASSES for problem in found)
