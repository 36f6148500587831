"""Side effects of installing everything that is due, from one simulation on the node."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import base, others

from gpusmith.errors import Refusal
from gpusmith.preflight.words import Facts, Tables, Wanted, refusal

PLACES = {"apt": "/etc/apt", "dnf": "/etc/yum.repos.d"}
"""By package manager, where repositories are configured."""
CNI_FOLDER = "/opt/cni/bin"
"""Where package kubernetes-cni and the DaemonSets of pod networks put their plugins."""
OFF = {
    "debian": "Debian's 'contrib', 'non-free' and 'non-free-firmware'",
    "ubuntu": "on minimal images of Ubuntu 'restricted' and 'multiverse'",
    **dict.fromkeys(("rhel", "rocky", "almalinux"), "EPEL, which has 'dkms', and CRB, which EPEL needs,"),
}
"""Repositories of a distribution that a driver needs, and that may be off."""


def _off_by_default(facts: Facts) -> str:
    words = OFF.get(str(facts["record"]["host"].get("os_id")))
    return f" ({words} are off by default)" if words else ""


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
        if trouble == simulation["error"]:
            yield refusal(
                "lists of packages",
                trouble.rstrip("."),
                "repositories of the machine's own that can be read",
                f"Correct them in '{places}', or bring them up.",
            )
            return
        hint = (
            f"The system's own repositories could not be read: {trouble} Bring them up, or correct them in '{places}'."
            if trouble
            else f"Add what is missing to the node's repositories{_off_by_default(facts)}, or correct the versions in the"
            " inventory."
        )
        yield refusal(
            "packages", f"they cannot be installed together: {simulation['error']}", "a set that can", hint
        )
        return
    there, serves = facts["record"]["packages"], bool(facts["record"]["kubernetes"]["joined"])
    found = others.of_plan(
        base.Plan(**simulation["plan"]),
        facts["asked"].values(),
        {name: str((package or {}).get("source") or "") for name, package in there.items()},
        simulation["held"],
        list(wanted.node.preflight.removable_packages),
        serves,
    )
    if found.removed:
        yield refusal(
            "packages of others",
            f"installing what the inventory wants would remove {others.listed(found.removed)}",
            "no package of others goes",
            "Look at what uses them on the node. If nothing does, remove them, or name them in 'preflight_removable_packages';"
            " else leave the machine out with -l.",
        )
    if found.kernel:
        running = facts["record"]["host"]["kernel"]
        yield refusal(
            "kernel",
            f"installing what the inventory wants would bring kernel {found.kernel}, alone",
            "the kernels that are there, since one without its other packages does not boot",
            f"Bring the kernel up to date as a whole and reboot, or install 'kernel-devel-matched-{running}'; then run again.",
        )
    if found.changed:
        yield refusal(
            "packages of others",
            f"installing what the inventory wants would change {others.listed(found.changed)}",
            "none that is held, and on a joined node none at all, since that could not be taken back",
            "Bring them to these versions yourself; drain a joined node first. Then run again, or leave the machine out with -l.",
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
