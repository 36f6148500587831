"""Checks of the nodes tier on the driver: packages, libraries, loaded module, NVML; which one it is, and that it stays."""

from __future__ import annotations

from gpusmith.checks.evidence import kernel_evidence, versions_evidence, witnesses_evidence
from gpusmith.checks.findings import CannotAsk, NotApplicable
from gpusmith.checks.register import check
from gpusmith.data.operands import MANAGED
from gpusmith.expect import driver as expected
from gpusmith.expect import (
    extra_modules,
    foreign,
    kernels,
    node_versions,
    packages,
    parameters,
    signatures,
    taken,
)
from gpusmith.expect.choice import driver_of
from gpusmith.expect.layouts import Unmet
from gpusmith.expect.wanted import packages_of
from gpusmith.node.facts import NodeFacts
from gpusmith.problems import Cure, Problem
from gpusmith.wording import quoted


@check(
    "nodes.simulation-witnesses",
    place=30,
    proves="inventory and loaded library agree on whether the GPUs are simulated",
    fails_when="'gpusmith_simulated' says one thing and the mark in the loaded library the other, or no library can be loaded",
    do="correct 'gpusmith_simulated', find out who installed the library, or install the driver with site.yml",
    critical=True,
    evidence=witnesses_evidence,
    explained_by=("nodes.driver-versions",),
)
def simulation_witnesses(facts: NodeFacts) -> list[Problem]:
    """The inventory and the loaded library, two independent witnesses, must agree."""
    node, says, marked = facts.host.name, facts.host.simulated, facts.record.library.simulated
    evidence = {"inventory_simulated": says, "library_simulated": marked}
    if marked is None:
        return [_no_witness(facts, says, evidence)]
    if marked != says:
        said, found = ("simulated", "real") if says else ("real", "simulated")
        return [
            Problem(
                f"Node '{node}': the inventory says its GPUs are {said}, but the loaded library is that of {found} ones.",
                f"Correct 'gpusmith_simulated' of '{node}' in the inventory, or find out who installed that library.",
                evidence,
            )
        ]
    return []


def _no_witness(facts: NodeFacts, says: bool, evidence: dict[str, bool | None]) -> Problem:
    node, record, wanted = facts.host.name, facts.record, driver_of(facts.host, facts.model, facts.record)
    cause = (
        f"Node '{node}': the NVIDIA library cannot be loaded, so nobody confirms that its GPUs are"
        f" {'simulated' if says else 'real'}."
    )
    if packages.of_driver(record, wanted):
        return Problem(cause, f"Run 'nvidia-smi' on '{node}'; see nodes.driver-versions.", evidence)
    return Problem(cause, "Install the driver: site.yml.", evidence, Cure.PACKAGES)


@check(
    "nodes.driver-versions",
    place=40,
    proves="driver package = libraries = module file = loaded module = the inventory's version, which supports the node's GPUs",
    fails_when=(
        "one of them, or a package that site.yml installs, is missing, broken, shadowed or of another version, firmware is"
        " missing, nouveau is loaded, or a GPU is too old or too new for the driver's branch"
    ),
    do="run site.yml for what is missing; correct 'nvidia_driver_version' if the inventory is wrong",
    critical=True,
    evidence=versions_evidence,
)
def driver_versions(facts: NodeFacts) -> list[Problem]:
    """Package = libraries = module file = loaded module = the inventory's version, and one that supports the GPUs."""
    wanted = driver_of(facts.host, facts.model, facts.record)
    try:
        found = expected.driver_versions(facts.record, wanted)
    except Unmet as error:
        found = [Problem(f"Node '{facts.host.name}': {error.message}", error.hint)]
    return [*found, *node_versions.driver(facts.record, wanted)]


@check(
    "nodes.foreign-driver",
    place=42,
    proves="the driver was installed by packages only, and these are complete",
    fails_when=(
        "there is NVIDIA's installer, a library or DKMS source of the driver that no package owns, or a half-installed"
        " package, such as one that a killed dnf left in two versions"
    ),
    do=(
        "remove it with the tool that installed it ('nvidia-uninstall'), then run site.yml; where site.yml does not"
        " finish packages, run 'dpkg --configure -a' or 'dnf remove --duplicates'"
    ),
)
def foreign_driver(facts: NodeFacts) -> list[Problem]:
    """No driver came past the package manager, unless it is somebody else's and no packages are beside it."""
    record, wanted = facts.record, driver_of(facts.host, facts.model, facts.record)
    if facts.host.manages("nvidia_driver") or packages.of_driver(record, wanted) or record.half_packages:
        return foreign.problems(record, wanted)
    raise NotApplicable(
        f"The inventory says that others install the driver of '{facts.host.name}'; no package of it is there."
    )


@check(
    "nodes.kernels",
    place=45,
    proves=(
        "the newest kernel, which boots next, and every other kernel with headers have the driver's module; modules that"
        " another node has built are unchanged, and are for their kernel; with Secure Boot, all are signed with the site's key"
        " where there is one"
    ),
    fails_when=(
        "such a kernel has no module 'nvidia', or one of another version; an older kernel without headers is only named."
        " It also fails if a module that another node has built is missing, has another checksum, or is for another kernel, and"
        " if somebody else signed a module, as DKMS does for a kernel that came between two runs, or if a line of modprobe.d"
        " or of the kernel's command line keeps a module of the driver from being loaded; a blacklisted one is only named"
    ),
    do="run site.yml, which installs the kernel's headers and builds, copies or signs the module, or remove that kernel",
    evidence=kernel_evidence,
)
def next_boot(facts: NodeFacts) -> list[Problem]:
    """Every kernel that can be booted has the driver's module, unless it is an old one for which none can be built."""
    node, record = facts.host.name, facts.record
    if record.kernels is None:
        raise CannotAsk(f"Node '{node}': the kernels in '/lib/modules' could not be listed.")
    wanted = driver_of(facts.host, facts.model, record)
    try:
        signed = signatures.problems(record, wanted)
    except Unmet as error:
        raise CannotAsk(f"Node '{node}': {error.message} {error.hint}") from error
    found = [
        *kernels.problems(record, wanted),
        *taken.problems(record, node),
        *signed,
        *kernels.blocked(record, node),
    ]
    unread = [row.module for row in kernels.others(record) if row.module and row.module_version is None]
    if unread and not found:
        raise CannotAsk(
            f"Node '{node}': {quoted(unread)} could not be read and may be damaged: try 'modinfo' with it."
        )
    return found


@check(
    "nodes.module-parameters",
    place=48,
    proves="the loaded module runs with the parameters of 'nvidia_driver_module_parameters'",
    fails_when="one of them has another value, or the module does not show it",
    do="drain and reboot the node, or upgrade its driver; correct the name, if 'modinfo -p nvidia' does not have it",
    managed_only=True,
)
def module_parameters(facts: NodeFacts) -> list[Problem]:
    """The module was loaded with what the inventory sets."""
    if not facts.host.driver.module_parameters:
        raise NotApplicable(f"The inventory sets no parameters of the module on '{facts.host.name}'.")
    module = facts.record.module
    if module.loaded_version is None or module.parameters is None:
        raise CannotAsk(
            f"The module on '{facts.host.name}' does not show its parameters; see nodes.driver-versions."
        )
    return parameters.problems(facts.record, driver_of(facts.host, facts.model, facts.record))


@check(
    "nodes.extra-modules",
    place=49,
    proves="the modules of 'nvidia_driver_extra_modules' are loaded now and at every boot",
    fails_when="one is not loaded, is not loaded at boot, or a file keeps it from being loaded at boot",
    do="run site.yml; install the package that has the module, such as that of GDRCopy or GPUDirect Storage",
    managed_only=True,
)
def modules_that_use_it(facts: NodeFacts) -> list[Problem]:
    """What RDMA and direct storage need besides."""
    if not facts.host.driver.extra_modules:
        raise NotApplicable(f"The inventory declares no further modules for '{facts.host.name}'.")
    return extra_modules.problems(facts.record, driver_of(facts.host, facts.model, facts.record))


@check(
    "nodes.nvml",
    place=50,
    proves="NVML starts and every GPU answers",
    fails_when="NVML does not start, or a GPU does not answer or does not identify itself",
    do="run 'nvidia-smi' on the node; drain it, then reset the GPU or reboot; if it comes back, replace the board",
    critical=True,
    explained_by=("nodes.driver-versions",),
)
def nvml(facts: NodeFacts) -> list[Problem]:
    """NVML starts, and every GPU answers."""
    return expected.nvml(facts.record, facts.host.name)


@check(
    "nodes.holds",
    place=200,
    proves="driver, runtime and Kubernetes packages are held at their version",
    fails_when=(
        "an upgrade could change one of these packages, or one of them, other than the driver's, does not have the"
        " inventory's version"
    ),
    do="run site.yml, or hold the packages that are named",
    explained_by=("nodes.container-toolkit",),
    managed_only=True,
)
def holds(facts: NodeFacts) -> list[Problem]:
    """Nobody's routine upgrade may change these."""
    record, wanted = facts.record, driver_of(facts.host, facts.model, facts.record)
    names = packages.to_hold(record, wanted, facts.host.packages_of_others)
    if not names and facts.host.driver.owner != MANAGED:
        raise NotApplicable(f"The inventory says that others install the packages of '{facts.host.name}'.")
    if not names:
        raise CannotAsk(f"Node '{facts.host.name}' has none of the packages; see nodes.driver-versions.")
    kept = packages_of(facts.host, record)
    loose = packages.loose(record, names | set(kept.versions))
    return [*packages.not_held(loose, facts.host.name), *packages.wrong_versions(record, kept)]
