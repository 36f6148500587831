"""What a role has to do on a node: the judge's problems as plain data, and what the role's tasks go by.

Every plan has `problems` (in words, without the node's name), `cures` (kinds of cure that are needed, sorted) and `files` (paths
of the role's files that are missing or say something else). It needs nothing but a record, what the inventory wants of the node,
and what the role adds (`own`): names of packages, and contents of files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpusmith.expect import (
    cdi,
    changes,
    cuda,
    driver_needs,
    environment,
    extra_modules,
    fabric,
    files,
    huge_pages,
    kernel_modules,
    kernels,
    kubelet,
    layouts,
    mig,
    packages,
    removal,
    services,
    signatures,
    steps,
    taken,
    toolkit,
    trust,
    wanted,
)
from gpusmith.expect import containerd as runtime
from gpusmith.expect import driver as drivers
from gpusmith.expect import host as hosts
from gpusmith.node.records import parse
from gpusmith.probe.record import Record
from gpusmith.problems import Cure, Problem
from gpusmith.wanted.node import NodeWanted

Plan = dict[str, Any]
Own = Mapping[str, Any]


def words(problem: Problem, node: str) -> str:
    """A problem's cause as part of a sentence about its node."""
    return problem.cause.removeprefix(f"Node '{node}': ").removesuffix(".")


def _answer(found: Sequence[Problem], node: str, outdated: Sequence[str] = ()) -> Plan:
    return {
        "problems": [words(problem, node) for problem in found],
        "cures": sorted({str(problem.cure) for problem in found}),
        "files": list(outdated),
    }


SETS = {
    "containerd": "containerd",
    "nvidia_container_toolkit": "nvidia-container-toolkit",
    "kubernetes_node": "kubernetes",
}
"""By role whose packages all have one version, the name that module packages gives its files."""
DRIVER = "nvidia-driver"
"""The same of the driver."""


def set_to_ask_for(record: Record, host: NodeWanted, role: str, own: Own) -> dict[str, Any]:
    """Arguments of module packages for a role whose packages all have one version."""
    return {
        "name": SETS[role],
        "repository": dict(host.of_role(role).repository),
        "packages": packages.to_ask_for(record, packages_of(record, host, role, own)),
        **{key: list(own[key]) for key in ("patterns", "companions") if key in own},
    }


def packages_of(record: Record, host: NodeWanted, role: str, own: Own) -> wanted.Packages:
    """Packages of a role, which all have its one version. A joined node keeps its own, unless they may be changed."""
    kept = record.kubernetes.joined and not host.change_runtime_on_joined
    return wanted.Packages(host.name, dict.fromkeys(own["packages"], host.of_role(role).version), kept)


def _of_packages(
    record: Record,
    host: NodeWanted,
    role: str,
    own: Own,
    found: Sequence[Problem],
    outdated: Sequence[str],
    kept: Sequence[str] = (),
) -> Plan:
    """A role that changes a service of a node that serves.

    Versions that such a node keeps, and what else is kept, are no work of the role, and are said at the end of a run. What an
    earlier run left open is work, and no reason to fail while it is done.
    """
    drift = [problem for problem in found if problem.cure is Cure.UPGRADE]
    unproved = changes.unproved(record, host.name, role)
    answer = _answer([problem for problem in found if problem not in drift], host.name, outdated)
    return {
        **answer,
        "cures": sorted({*answer["cures"], *(str(problem.cure) for problem in unproved)}),
        "unproved": bool(unproved),
        "drift": [*(words(problem, host.name) for problem in drift), *kept],
        "asked": set_to_ask_for(record, host, role, own),
    }


def _driver_to_ask_for(host: NodeWanted, **parts: Any) -> dict[str, Any]:
    """Arguments of module packages for the driver."""
    of_set = {"name": DRIVER, "repository": dict(host.driver.repository), "hold_unversioned": True}
    return {**of_set, **parts}


def driver(raw: Mapping[str, Any], host: NodeWanted, own: Own) -> Plan:
    """Role nvidia_driver: the keys of `driver_needs.asked_for`, and kernel (names of a kernel's packages)."""
    record, node = parse(raw), host.name
    try:
        want = driver_needs.asked_for(record, host, own)
        compiled_beside = want.layout.ready and extra_modules.by_dkms(record, want)
        compiles = host.driver.kernel_headers and (compiled_beside or not want.layout.ready)
        names = (own.get("kernel") or {}) if compiles else {}
        needed = compiled_beside or record.module.installed_version is None
        headers = kernels.headers(record, names, needed)
        found = [
            *drivers.problems(record, want),
            *packages.pins(record, want),
            *kernels.unprepared(headers["next"], node),
        ]
        to_take = taken.to_take(record, want)
        must_have = driver_needs.must_have(record, want)
        flavour = driver_needs.flavour(record, want)
    except layouts.Unmet as error:
        return {
            **_answer((), node),
            "refused": f"{error.message} {error.hint}",
            "divided": [],
            "drift": [],
            "installed": [],
            "packages": [],
            "tools": [],
            "fabric_modules": [],
            "leftovers": [],
            "to_be_left": [],
            "version": host.driver.version,
            "asked": _driver_to_ask_for(host, packages={}),
        }
    wrong = packages.outdated(record, want)
    other = packages.of_other_kind(record, want, flavour)
    return {
        **_answer(found, node, files.outdated(record, want.files)),
        "refused": "",
        "divided": [f"{problem.cause} {problem.next_step}" for problem in mig.divided(record, node)],
        "version": want.version,
        "serves": record.kubernetes.joined,
        "flavour": flavour,
        "fabric_manager": fabric.needed(record, want),
        "packages": must_have,
        "other_packages": driver_needs.unversioned(record, want),
        "tools": [name for name in fabric.tools(record, want) if name not in record.packages],
        "fabric_modules": fabric.modules_to_load(record, want),
        "kernel_to_hold": packages.loose(record, signatures.to_hold(record, want)),
        "leftovers": driver_needs.to_remove(record, want),
        "to_be_left": driver_needs.to_be_left(record, want),
        "displaced": driver_needs.displaced(record, want),
        "installed": packages.installed_versions(record, want),
        "headers": [
            *headers["kernels"],
            *headers["next"],
            *kernels.modules_to_come(record, want, flavour),
        ],
        "unbuilt": kernels.unbuilt(record, want),
        "to_take": to_take,
        "damaged": taken.damaged(record, want),
        "to_rebuild": extra_modules.to_rebuild(record, want),
        "drift": [
            *(f"'{name}' is {version}" for name, version in sorted(wrong.items())),
            *(f"'{name}' is the {kind} module" for name, kind in other.items()),
        ],
        "outdated": sorted(wrong),
        "asked": _driver_to_ask_for(
            host,
            packages=dict.fromkeys(must_have, want.version),
            patterns=list(want.layout.patterns),
            unversioned=driver_needs.unversioned(record, want),
            companions=kernels.companions(record, want),
            counterparts=packages.counterparts(record, want),
            release=driver_needs.to_release(record, want),
            replaced=driver_needs.to_remove(record, want),
            displaced=driver_needs.displaced(record, want),
        ),
        "unheld": packages.unheld(record, want),
        "change_driver": (
            steps.upgrade_driver(node, want.version)
            if record.module.flavour in (None, flavour)
            else steps.change_driver(node)
        ),
    }


HINTS = {
    "swap": (
        "If swap has to stay, set 'host_baseline_swap: keep' and tell the kubelet with 'failSwapOn: false';"
        " else look at 'swapon --show' and 'systemctl list-units --type swap' on the node."
    ),
    "module": (
        "Look at 'modprobe NAME' and 'lsmod' on the node; 'host_baseline_modules' needs the names that 'lsmod' shows, no aliases."
    ),
    "sysctl": (
        "Look at 'sysctl NAME' and 'systemd-analyze cat-config sysctl.d' on the node for who sets another value;"
        " 'host_baseline_sysctl' can only have parameters and values that its kernel takes."
    ),
    "hugepages": (
        "Look at 'nr_hugepages' below '/sys/kernel/mm/hugepages' on the node: pages need memory in one piece, as it is free"
        " soon after a boot."
    ),
    "file": "Look for who else writes the file, such as another configuration management.",
}
"""What to look at, by the beginning of what the evidence is about."""
BOOT_HINT = (
    "The role changes no files of others: correct or remove those lines on the node, or make them the inventory's"
    " 'host_baseline_modules' and 'host_baseline_sysctl'."
)


def host_baseline(raw: Mapping[str, Any], host: NodeWanted, own: Own) -> Plan:
    """Role host_baseline: keys files, sysctl_file (its path and first line), needrestart (when, path and content of its file).

    Key 'modules_package' is the name of the package with a kernel's further modules.
    """
    record, node = parse(raw), host.name
    want = wanted.baseline_of(host, own.get("files"))
    want = replace(want, files={**want.files, **_for_needrestart(record, own.get("needrestart") or {})})
    file = own["sysctl_file"]
    lines = {**want.sysctl, **hosts.minima_to_name(record, want)}
    text = "".join(
        f"{line}\n" for line in (file["head"], *(f"{name} = {value}" for name, value in lines.items()))
    )
    want = replace(want, files={**want.files, str(file["path"]): text, **_for_boots(want, file["head"])})
    kept = [*huge_pages.kept(record, want), *hosts.swap_of_served(record, want)]
    found = [problem for problem in hosts.problems(record, want) if problem not in kept]
    lasting = [problem for problem in found if problem.cure is Cure.PERSON]
    about = {
        key.partition("_")[0]
        for problem in found
        if problem.cure is not Cure.PERSON
        for key in problem.evidence
    }
    return {
        **_answer(found, node, outdated := files.outdated(record, want.files)),
        "contents": {path: want.files[path] for path in outdated},
        "modules": hosts.modules_to_load(record, want),
        "modules_packages": list(
            kernel_modules.packages(str(own.get("modules_package") or ""), record, want.modules).values()
        ),
        "sysctl": hosts.parameters_to_set(record, want),
        "huge_pages": huge_pages.to_set(record, want),
        "swap": hosts.swap_is_due(record, want),
        "leaving": hosts.leaving(record, want),
        "trust_outdated": bool(trust.problems(record, node, want.authorities)),
        "units": [name for name in services.OF_SYSTEM if _is_off(record, name)],
        # What no run changes, so that check mode refuses it, too.
        "boot": [words(problem, node) for problem in lasting],
        "hints": [hint for kind, hint in HINTS.items() if kind in about] + ([BOOT_HINT] if lasting else []),
    }


def _for_boots(want: wanted.Baseline, head: str) -> dict[str, str]:
    """The file by which boots set huge pages."""
    lines = huge_pages.lines(want.huge_pages)
    return {hosts.HUGE_PAGES_FILE: "".join(f"{line}\n" for line in (head, *lines))} if lines else {}


def _for_needrestart(record: Record, asked: Own) -> dict[str, str]:
    """Its file where it is installed, and where the operating system brings it by itself."""
    if asked.get("when") == "always" or (
        asked.get("when") == "installed" and record.surroundings.needrestart
    ):
        return {str(asked["path"]): str(asked["content"])}
    return {}


def _is_off(record: Record, unit: str) -> bool:
    return bool(services.unit_at_boot(record, "", unit, ""))


REGISTRIES = "/etc/containerd/certs.d/*/hosts.toml"


def containerd(raw: Mapping[str, Any], host: NodeWanted, own: Own) -> Plan:
    """Role containerd: keys packages (names), files and environment."""
    record, node = parse(raw), host.name
    of_role, of_packages = wanted.files(own.get("files")), packages_of(record, host, "containerd", own)
    told = environment.of(own.get("environment"))
    of_unit, unit = environment.wanted(record, told), record.services.get("containerd")
    found = [
        *packages.problems(record, of_packages),
        *files.problems(record, node, {**of_role, **of_unit}, Cure.CONTAINERD),
        *files.left_over(record, node, of_role, REGISTRIES, Cure.CONTAINERD),
        *runtime.problems(record, wanted.Runtime(node, nvidia=False)),
    ]
    return {
        **_of_packages(
            record,
            host,
            "containerd",
            own,
            found,
            files.outdated(record, {**of_role, **of_unit}),
            _kept(environment.kept(record, node, told), node),
        ),
        "environment": {path: of_unit[path] for path in files.outdated(record, of_unit)},
        # A run that was killed wrote the drop-in, and systemd has not read it.
        "reload": bool(unit and unit.reload_due and not record.kubernetes.joined),
    }


def _kept(found: Sequence[Problem], node: str) -> list[str]:
    """What a node that serves keeps, and what a person can do about it."""
    return [f"{words(problem, node)}. {problem.next_step.removesuffix('.')}" for problem in found]


def container_toolkit(raw: Mapping[str, Any], host: NodeWanted, own: Own) -> Plan:
    """Role nvidia_container_toolkit: keys packages (names), files and runtime_files."""
    record = parse(raw)
    want = wanted.Toolkit(
        host.name,
        packages_of(record, host, "nvidia_container_toolkit", own),
        wanted.runtime_of(host),
        wanted.cdi_of(host),
        wanted.files(own.get("files")),
        wanted.files(own.get("runtime_files")),
    )
    outdated = [*files.outdated(record, want.files), *files.outdated(record, want.runtime_files)]
    found = toolkit.problems(record, want)
    return {
        **_of_packages(record, host, "nvidia_container_toolkit", own, found, outdated),
        "start_unit": any(problem.cure in toolkit.CURED_BY_UNIT for problem in found),
        "specification": toolkit.specification(record, want, found),
    }


def cuda_toolkit(raw: Mapping[str, Any], host: NodeWanted, own: Own) -> Plan:  # noqa: ARG001 - one signature for all
    """Role cuda_toolkit."""
    record = parse(raw)
    want = wanted.CudaToolkits(host.name, host.cuda.versions, host.cuda.default)
    return {
        **_answer(cuda.problems(record, want), host.name),
        "missing": cuda.missing(record, want),
        "others": cuda.others(record, want),
    }


def kubernetes_node(raw: Mapping[str, Any], host: NodeWanted, own: Own) -> Plan:
    """Role kubernetes_node on the machine: keys packages (names), settings (files of the kubelet) and environment."""
    record, node = parse(raw), host.name
    config = host.kubernetes.kubelet_config
    want = wanted.Kubelet(
        node,
        packages_of(record, host, "kubernetes_node", own),
        wanted.files(own.get("settings")),
        {
            manager: str(config[field])
            for manager, field in (("cpu", "cpuManagerPolicy"), ("memory", "memoryManagerPolicy"))
            if config.get(field)
        },
    )
    useless = [*kubelet.unread(record, want), *kubelet.other_policies(record, want)]
    told = environment.of(own.get("environment"))
    of_unit = environment.wanted(record, told)
    want = replace(want, settings={**({} if useless else want.settings), **of_unit})
    found = kubelet.problems(record, want)
    kept = _kept([*(useless if config else ()), *environment.kept(record, node, told)], node)
    return {
        **_of_packages(
            record, host, "kubernetes_node", own, found, files.outdated(record, want.settings), kept
        ),
        "environment": {path: of_unit[path] for path in files.outdated(record, of_unit)},
    }


def gpu_operands(raw: Mapping[str, Any], host: NodeWanted, own: Own) -> Plan:  # noqa: ARG001 - one signature for all
    """Role gpu_operands on the machine."""
    return _answer(cdi.plugin(parse(raw), wanted.cdi_of(host)), host.name)


PLANS: Mapping[str, Callable[[Mapping[str, Any], NodeWanted, Own], Plan]] = {
    "host_baseline": host_baseline,
    "nvidia_driver": driver,
    "nvidia_driver_removal": removal.driver,
    "containerd": containerd,
    "nvidia_container_toolkit": container_toolkit,
    "cuda_toolkit": cuda_toolkit,
    "kubernetes_node": kubernetes_node,
}
"""By role."""
NOTHING: Plan = {
    **_answer((), ""),
    "asked": {},
    "divided": [],
    "drift": [],
    "due": False,
    "environment": {},
    "refused": "",
    "unproved": False,
}
"""The plan of a part that somebody else installs."""


def plan(role: str, raw: Mapping[str, Any], host: NodeWanted, own: Own) -> Plan:
    """What a role has to do on a node; nothing where its part is somebody else's."""
    return PLANS[role](raw, host, own) if host.manages(role.removesuffix("_removal")) else NOTHING
