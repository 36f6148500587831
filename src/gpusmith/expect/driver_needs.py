"""The driver that is wanted on a machine: its version, its kind of module, and the packages that come and go for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpusmith.data import compatibility
from gpusmith.data.models import Model
from gpusmith.expect import (
    choice,
    components,
    fabric,
    kernels,
    layouts,
    packages,
    steps,
    versions,
    wanted,
)
from gpusmith.expect.layouts import Unmet
from gpusmith.expect.wanted import Driver
from gpusmith.probe.record import Record
from gpusmith.wanted.node import NodeWanted
from gpusmith.wording import quoted


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
