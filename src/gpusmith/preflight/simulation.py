"""Side effects of installing everything that is due, from one simulation on the node."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.base import alike, plain_name
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.rpm import names_of_builds

from gpusmith.errors import Refusal
from gpusmith.expect.versions import of_driver
from gpusmith.preflight.words import Facts, Tables, Wanted, refusal

CUDA = "cuda-*"
"""CUDA's toolkits stand side by side, and share a few packages that a newer one brings anew."""
PLACES = {"apt": "/etc/apt", "dnf": "/etc/yum.repos.d"}
"""By package manager, where repositories are configured."""
CNI_FOLDER = "/opt/cni/bin"
"""Where package kubernetes-cni and the DaemonSets of pod networks put their plugins."""


def _listed(packages: Mapping[str, str]) -> str:
    return ", ".join(f"'{name}' ({version})" for name, version in sorted(packages.items()))


def _ours(name: str, version: str, source: str, asks: Mapping[str, Mapping[str, Any]]) -> bool:
    return any(
        name in asked.get("packages", {})
        or name in asked.get("unversioned", [])
        or alike(name, source, asked.get("companions", []))
        or name in (*asked.get("optional", []), *names_of_builds(asked.get("optional", [])))
        or any(name in (each["of"], *each["names"]) for each in asked.get("counterparts", []))
        or _by_pattern(role, name, version, source, asked.get("patterns", []))
        for role, asked in asks.items()
    )


def _by_pattern(role: str, name: str, version: str, source: str, patterns: Sequence[str]) -> bool:
    # Many names have 'nvidia' in them, 'nvidia-docker2' for one: the driver's have its kind of version as well, or its source.
    return alike(name, source, patterns) and (
        role != "nvidia_driver" or of_driver(version) is not None or alike("", source, patterns)
    )


KERNEL_OF_RPM = "kernel-core"
"""EPEL's dkms requires kernel-devel-matched beside it, in any version: the newest one brings its own kernel-core."""
OFF = {
    "debian": "Debian's 'contrib', 'non-free' and 'non-free-firmware'",
    "ubuntu": "on minimal images of Ubuntu 'restricted' and 'multiverse'",
    **dict.fromkeys(("rhel", "rocky", "almalinux"), "EPEL, which has 'dkms', and CRB, which EPEL needs,"),
}
"""Repositories of a distribution that a driver needs, and that may be off."""


def _off_by_default(facts: Facts) -> str:
    words = OFF.get(str(facts["record"]["host"].get("os_id")))
    return f" ({words} are off by default)" if words else ""


def _sources(facts: Facts) -> str:
    """Where packages come from."""
    nodes = f"the node's repositories{_off_by_default(facts)}"
    repositories = [facts["asked"].get(role, {}).get("repository") or {} for role in facts["repositories"]]
    folders = sorted({str(given["folder"]) for given in repositories if given.get("folder")})
    if not folders:
        return nodes
    named = " or ".join(map(repr, folders))
    return f"the folder {named} and its 'SHA256SUMS', since its packages come from there alone (for others to {nodes})"


def check_simulation(facts: Facts, wanted: Wanted, _tables: Tables) -> Iterator[Refusal]:
    """All that is due can be installed together, and no package of others is removed, or changed on a node that serves."""
    simulation = facts["simulation"]
    if simulation is None:
        return
    trouble = simulation["trouble"]
    for told in simulation.get("lacking") or ():
        yield refusal(
            "parts of the driver",
            told,
            "a counterpart in the wanted version, for what a site has besides the driver",
            "Find out who needs it on the node, add the repository that has it, or stay with the branch that is there.",
        )
    if simulation["error"]:
        places = PLACES.get(facts["package_manager"], "/etc")
        hint = (
            f"The system's own repositories could not be read: {trouble} Bring them up, or correct them in '{places}'."
            if trouble
            else f"Add what is missing to {_sources(facts)}, or correct the versions in the inventory."
        )
        yield refusal(
            "packages", f"they cannot be installed together: {simulation['error']}", "a set that can", hint
        )
        return
    plan, there = simulation["plan"], facts["record"]["packages"]

    def is_ours(name: str, version: str) -> bool:
        # One of a foreign architecture follows the machine's own of that name.
        own = plain_name(name)
        return _ours(own, version, str((there.get(own) or {}).get("source") or ""), facts["asked"])

    def goes_alone(name: str) -> bool:
        return name != plain_name(name) and plain_name(name) not in plan["removed"]

    allowed = [str(name) for name in wanted.get("removable_packages") or []]
    gone = {
        name: version
        for name, version in plan["removed"].items()
        if (goes_alone(name) or not is_ours(name, version))
        and not any(fnmatch.fnmatchcase(name, pattern) for pattern in allowed)
    }
    if gone:
        yield refusal(
            "packages of others",
            f"installing what the inventory wants would remove {_listed(gone)}",
            "no package of others goes",
            "Look at what uses them on the node. If nothing does, remove them, or name them in 'preflight_removable_packages';"
            " else leave the machine out with -l.",
        )
    if KERNEL_OF_RPM in plan["changed"]:
        running = facts["record"]["host"]["kernel"]
        yield refusal(
            "kernel",
            f"installing what the inventory wants would bring kernel {plan['changed'][KERNEL_OF_RPM][1]}, alone",
            "the kernels that are there, since one without its other packages does not boot",
            f"Bring the kernel up to date as a whole and reboot, or install 'kernel-devel-matched-{running}'; then run again.",
        )
    serves = facts["record"]["kubernetes"]["joined"]
    others = {
        name: f"{before} to {after}"
        for name, (before, after) in plan["changed"].items()
        if name != KERNEL_OF_RPM
        and (name in simulation["held"] or (serves and not fnmatch.fnmatchcase(name, CUDA)))
        and not is_ours(name, before)
    }
    if others:
        yield refusal(
            "packages of others",
            f"installing what the inventory wants would change {_listed(others)}",
            "none that somebody holds, and on a node that serves none at all, since they could not be taken back",
            "Bring them to these versions yourself, on a node that serves after you drained it, then run again;"
            " or leave the machine out with -l.",
        )


def check_cni(facts: Facts, _wanted: Wanted, _tables: Tables) -> Iterator[Refusal]:
    """The runtime looks for CNI plugins where they are installed; a removed package leaves its configuration file."""
    record = facts["record"]
    folders = record["containerd"]["effective"].get("cni_folders")
    if folders is None or CNI_FOLDER in folders or "kubernetes-cni" in record["packages"]:
        return
    yield refusal(
        "CNI plugins",
        f"containerd on the machine looks for them in {', '.join(map(repr, folders))}",
        f"'{CNI_FOLDER}', where 'kubernetes-cni' and pod networks put them",
        "Debian's own containerd says so in '/etc/containerd/config.toml', which outlives the package: remove 'bin_dir' there.",
    )
