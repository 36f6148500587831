"""The operating system: swap, kernel modules and kernel parameters, now and at the next boot."""

from __future__ import annotations

import posixpath
from dataclasses import asdict

from gpusmith.expect import files, huge_pages, kernel_modules, services, trust
from gpusmith.expect.wanted import Baseline
from gpusmith.probe.boot import Boot, BootParameter
from gpusmith.probe.record import Record
from gpusmith.problems import Cure, Problem

OWN_FILES = "/gpusmith-"
"""In the paths of files that our roles write."""
OWN_FILE = "gpusmith-host-baseline.conf"
"""Name of the role's files of modules and of parameters. Of all files in sysctl.d, those that follow it by name win over it."""


HUGE_PAGES_FILE = "/etc/tmpfiles.d/gpusmith-host-baseline.conf"
"""Which the role removes where the inventory wants none any more."""


def problems(record: Record, wanted: Baseline) -> list[Problem]:
    """What role host_baseline answers for."""
    return [
        *files.problems(record, wanted.node, wanted.files, Cure.HOST),
        *files.left_over(record, wanted.node, wanted.files, HUGE_PAGES_FILE, Cure.HOST),
        *baseline(record, wanted),
        *services.of_system(record, wanted.node),
    ]


def baseline(record: Record, wanted: Baseline) -> list[Problem]:
    """What kubelet and the pod network need of the kernel, and what else the inventory sets."""
    found = _swap(record, wanted) + _modules(record, wanted) + kernel_modules.problems(record, wanted)
    found += _parameters(record, wanted) + _minima(record, wanted) + huge_pages.problems(record, wanted)
    found += trust.problems(record, wanted.node, wanted.authorities)
    if record.boot is None:
        cause = f"Node '{wanted.node}': what a boot would load and set could not be read."
        found.append(Problem(cause, "Read the record's 'errors': they say what could not be read."))
    return found


def modules_to_load(record: Record, wanted: Baseline) -> list[str]:
    """Kernel modules that are not loaded."""
    return [name for name in wanted.modules if not record.system.modules.get(name)]


def parameters_to_set(record: Record, wanted: Baseline) -> dict[str, str]:
    """Kernel parameters that have another value, or too small a one, with the wanted one."""
    seen = record.system.sysctl
    other = {name: value for name, value in wanted.sysctl.items() if seen.get(name) != value}
    return other | {
        name: str(least) for name, least in wanted.minimum.items() if _is_less(seen.get(name), least)
    }


def minima_to_name(record: Record, wanted: Baseline) -> dict[str, str]:
    """Parameters with a least value that the role's file has to set at boot.

    What is enough without us, by the kernel itself or by a file of others, stays out: the file would make it less.
    """
    return {name: str(least) for name, least in wanted.minimum.items() if not _by_others(record, name, least)}


def leaving(record: Record, wanted: Baseline) -> list[str]:
    """What the role's files name and the inventory does not any more; the running kernel keeps it until the next boot."""
    pages = ["huge pages"] if HUGE_PAGES_FILE in record.marked_files and not wanted.huge_pages else []
    if record.boot is None:
        return pages
    modules = {name.replace("-", "_") for name in wanted.modules}
    return [
        *(
            f"module '{name}'"
            for name, row in record.boot.modules.items()
            if (row.file or "").endswith(OWN_FILE) and name.replace("-", "_") not in modules
        ),
        *(
            f"parameter '{name}'"
            for name, row in record.boot.sysctl.items()
            if any(path.endswith(OWN_FILE) for path in row.files)
            and name not in {**wanted.sysctl, **wanted.minimum}
        ),
        *pages,
    ]


def _by_others(record: Record, name: str, least: int) -> bool:
    row = record.boot.sysctl.get(name) if record.boot else None
    if row is None or any(OWN_FILES in path for path in row.files):
        return False
    return not _is_less(record.system.sysctl.get(name), least) and (
        row.value is None or not _is_less(row.value, least)
    )


def _is_less(value: str | None, least: int) -> bool:
    """Whether a parameter's value is too small; what is no number is."""
    return value is None or not value.isdigit() or int(value) < least


def cannot_set(record: Record, wanted: Baseline) -> dict[str, str]:
    """Of the parameters that are to be set, those that nobody can set on the machine, with the wanted values."""
    return {
        name: value
        for name, value in parameters_to_set(record, wanted).items()
        if name in record.system.locked
    }


def _boot(record: Record, wanted: Baseline) -> Boot | None:
    """What boots do. Before the role's files are there, nobody can tell who wins over them."""
    return None if files.outdated(record, wanted.files) else record.boot


def swap_of_served(record: Record, wanted: Baseline) -> list[Problem]:
    """Swap that a node uses while it serves. Turned off, it could end jobs for lack of memory, so that no run touches it."""
    areas = record.system.swap_areas
    if not (wanted.swap_off and record.kubernetes.joined and areas):
        return []
    return [
        Problem(
            f"Node '{wanted.node}': swap is on, {', '.join(map(repr, areas))}, and stays on while the node is joined.",
            "If it has to stay, set 'host_baseline_swap: keep'. Otherwise drain the node, and run 'swapoff -a' on it.",
            {"swap_areas": list(areas)},
            Cure.PERSON,
        )
    ]


def swap_is_due(record: Record, wanted: Baseline) -> bool:
    """Whether a run turns swap off, now or for boots."""
    return any(problem.cure is Cure.HOST for problem in _swap(record, wanted))


def _swap(record: Record, wanted: Baseline) -> list[Problem]:
    system, node = record.system, wanted.node
    if not wanted.swap_off:
        return []
    served = swap_of_served(record, wanted)
    if served:
        return served
    evidence = {
        "swap_areas": None if system.swap_areas is None else list(system.swap_areas),
        "swap_fstab": list(system.swap_fstab),
        "swap_units": None if record.boot is None else list(record.boot.swap_units),
        "swap_target_masked": system.swap_target_masked,
    }
    found, causes = [], []
    if system.swap_areas is None:
        cause = f"Node '{node}': whether swap is on cannot be read."
        found.append(Problem(cause, f"Look at '/proc/swaps' on '{node}'.", evidence))
    elif system.swap_areas:
        causes.append(
            f"swap is on, {', '.join(map(repr, system.swap_areas))}, with which kubelet does not start"
        )
    if system.swap_fstab:
        causes.append(f"/etc/fstab turns swap on at the next boot, {', '.join(map(repr, system.swap_fstab))}")
    if record.boot is not None and record.boot.swap_units:
        units = ", ".join(map(repr, record.boot.swap_units))
        causes.append(f"a swap unit is turned on at the next boot, {units}")
    if system.swap_target_masked is False:
        causes.append("'swap.target' is not masked, so that the next boot can turn swap on")
    step = (
        "Run site.yml, which turns it off; if it has to stay, set 'host_baseline_swap: keep',"
        " with 'failSwapOn: false' for kubelet."
    )
    return found + [Problem(f"Node '{node}': {cause}.", step, evidence, Cure.HOST) for cause in causes]


def _not_loaded_at_boot(boot: Boot | None, name: str) -> str | None:
    """Why no boot would load a module; None if one would, or if that is not known."""
    if boot is None:
        return None
    row = boot.modules.get(name)
    if row is None or row.file is None:
        return "no file in modules-load.d names it"
    return f"file '{row.forbidden_by}' forbids it" if row.forbidden_by else None


def _modules(record: Record, wanted: Baseline) -> list[Problem]:
    node, boot = wanted.node, _boot(record, wanted)
    found = []
    for name in wanted.modules:
        loaded, why = record.system.modules.get(name), _not_loaded_at_boot(boot, name)
        if loaded and why is None:
            continue
        if why is None:
            fault = "is not loaded, the inventory wants it"
        elif loaded is None:
            # The probe looks for those that files name; of others it does not know whether they are loaded.
            fault = f"would not be loaded by a boot ({why})"
        else:
            fault = f"is {'loaded now, but' if loaded else 'not loaded, and'} no boot would load it ({why})"
        row = boot.modules.get(name) if boot else None
        cure = Cure.HOST
        if row is not None and row.forbidden_by:
            step, cure = f"Take the module out of '{row.forbidden_by}' on '{node}'.", Cure.PERSON
        elif why is not None and wanted.files:
            step, cure = _unread(node, "modules-load.d"), Cure.PERSON
        elif why is None:
            step = f"Run site.yml for the node, or 'modprobe {name}' on '{node}' for the reason."
        else:
            step = "Run site.yml for the node."
        found.append(
            Problem(
                f"Node '{node}': kernel module '{name}' {fault}.",
                step,
                {f"module_{name}": {"loaded": loaded, "at_boot": row and asdict(row)}},
                cure,
            )
        )
    return found


def _not_set_at_boot(boot: Boot | None, name: str, value: str) -> str | None:
    """What a boot would do to a parameter instead; None if nothing else, or if that is not known."""
    if boot is None:
        return None
    row = boot.sysctl.get(name)
    if row is None or not row.files:
        return "no boot would set it (no file in sysctl.d names it)"
    if row.value == value:
        return None
    paths = f"file{'s' if len(row.files) > 1 else ''} {', '.join(map(repr, row.files))}"
    return (
        f"no boot would set it ({paths})"
        if row.value is None
        else f"a boot would set '{row.value}' ({paths})"
    )


def _unread(node: str, folder: str) -> str:
    """What to do if the role's file is right, and boots do otherwise."""
    return f"Look at 'systemd-analyze cat-config {folder}' on '{node}': boots do not go by the role's file there."


def _wins(path: str) -> bool:
    """Whether a file's lines stay whatever ours says."""
    return OWN_FILES not in path and posixpath.basename(path) > OWN_FILE


def _overriding(row: BootParameter | None, node: str) -> str:
    """What to do about files whose lines win over ours; empty if there are none."""
    named = " and ".join(repr(path) for path in (row.files if row else ()) if _wins(path))
    return f"Correct {named} on '{node}', which wins over the file of role 'host_baseline'." if named else ""


def _parameters(record: Record, wanted: Baseline) -> list[Problem]:
    found = []
    node, boot = wanted.node, _boot(record, wanted)
    for name, value in wanted.sysctl.items():
        seen, at_boot = record.system.sysctl.get(name), _not_set_at_boot(boot, name, value)
        if seen == value and at_boot is None:
            continue
        state = "is not there" if seen is None else f"is '{seen}'"
        why = ", it needs module 'br_netfilter'" if seen is None and name.startswith("net.bridge.") else ""
        if seen == value:
            fault = f"is '{seen}' now, but {at_boot}"
        elif boot is not None and name not in boot.sysctl:
            # The probe looks for our own and those that files of our roles name.
            fault = "is in no file of role 'host_baseline' in sysctl.d"
        else:
            fault = f"{state}{why}" + (f", and {at_boot}" if at_boot else "")
        row = boot.sysctl.get(name) if boot else None
        foreign = _overriding(row, node) if at_boot else ""
        cure = Cure.HOST
        if foreign:
            step, cure = foreign, Cure.PERSON
        elif at_boot and wanted.files:
            step, cure = _unread(node, "sysctl.d"), Cure.PERSON
        elif at_boot:
            step = "Run site.yml for the node."
        else:
            step = f"Run site.yml; if it comes back, 'systemd-analyze cat-config sysctl.d' on '{node}' tells who else sets it."
        found.append(
            Problem(
                f"Node '{node}': kernel parameter '{name}' {fault}, wanted is '{value}'.",
                step,
                {f"sysctl_{name}": {"wanted": value, "seen": seen, "at_boot": row and asdict(row)}},
                cure,
            )
        )
    return found


def _minima(record: Record, wanted: Baseline) -> list[Problem]:
    """Parameters of which more is right as well."""
    found, node, boot = [], wanted.node, _boot(record, wanted)
    for name, least in wanted.minimum.items():
        seen, row = record.system.sysctl.get(name), boot.sysctl.get(name) if boot else None
        at_boot = row is not None and row.value is not None and _is_less(row.value, least)
        if not _is_less(seen, least) and not at_boot:
            continue
        fault = f"is '{seen}'" if seen is not None else "is not there, or in no file of role 'host_baseline'"
        if row is not None and at_boot:
            fault += f", and a boot would set '{row.value}' ({', '.join(map(repr, row.files))})"
        foreign = _overriding(row, node) if at_boot else ""
        step, cure = "Run site.yml for the node.", Cure.HOST
        if name in record.system.locked and _is_less(seen, least):
            step, cure = (
                f"This machine cannot set it, as a container cannot: run 'sysctl -w {name}={least}' on its host.",
                Cure.PERSON,
            )
        elif foreign:
            step, cure = foreign, Cure.PERSON
        found.append(
            Problem(
                f"Node '{node}': kernel parameter '{name}' {fault}, wanted is at least '{least}'.",
                step,
                {f"sysctl_{name}": {"at_least": least, "seen": seen, "at_boot": row and asdict(row)}},
                cure,
            )
        )
    return found
