"""What a person does about a problem of a part that somebody else installs: site.yml and upgrades leave it alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpusmith.checks.cluster import ClusterFacts
from gpusmith.checks.findings import Finding
from gpusmith.checks.gpu_capacity import READ_LOG
from gpusmith.data.operands import EXISTING
from gpusmith.problems import Cure, Problem
from gpusmith.wanted.node import NodeWanted

DRIVER, RUNTIME, TOOLKIT, KUBELET = (
    "nvidia_driver",
    "containerd",
    "nvidia_container_toolkit",
    "kubernetes_node",
)
SERVICES = "nodes.services"
PARTS: Mapping[str, Sequence[str]] = {
    "nodes.containerd": (RUNTIME, TOOLKIT),
    "nodes.cri": (RUNTIME,),
    "nodes.containerd-version": (RUNTIME,),
    "nodes.container-toolkit": (TOOLKIT,),
    "nodes.cdi": (TOOLKIT,),
    "nodes.char-links": (TOOLKIT,),
    "nodes.driver-versions": (DRIVER,),
    "nodes.foreign-driver": (DRIVER,),
    "nodes.kernels": (DRIVER,),
    "nodes.nvml": (DRIVER,),
    "nodes.gpu-count": (DRIVER,),
    "nodes.fabric": (DRIVER,),
}
"""By check, the roles of which one at least has to be ours for site.yml to cure what it finds."""
UNITS = {
    "'containerd'": RUNTIME,
    "kubelet": KUBELET,
    "'nvidia-persistenced'": DRIVER,
    "'nvidia-cdi-refresh'": TOOLKIT,
}
"""By words of a cause of the check of services."""
ASK = "Ask whoever runs the cluster where the node went: kubectl get nodes"
OR_SITE = re.compile(r",? or (?:run )?site\.yml(?:, which [^.;]+)?(?=[.;,])")


MINE = re.compile(
    r"site\.yml|playbooks/|\binventory\b|'(?:gpusmith|validation|nvidia_driver|nvidia_container_toolkit|containerd|kubernetes_node"
    r"|gpu_operands|gpu_upgrade|host_baseline|cuda_toolkit)_\w+"
)
"""What there is only where gpusmith set nodes up."""
INSTEAD = {
    "in the inventory ('validation_images')": "in option '--images'",
    "a Secret in 'gpusmith_image_pull_secrets'": "a Secret in 'imagePullSecrets' of service account 'default'",
    "Where policies forbid it to new namespaces: 'validation_network: false'.": (
        "Look for a NetworkPolicy of the namespace that forbids it."
    ),
    ", or 'validation_pod_limits'": "",
    ", and at 'validation_pod_limits'": "",
}
OWNER = "Have whoever set up the node set that right."


def without_ours(finding: Finding) -> Finding:
    """A finding on what others set up: of its next step, what names no variable and no playbook."""
    cause = finding.cause.replace("the inventory", "the cluster").replace("The inventory", "The cluster")
    step = finding.next_step
    for ours, theirs in INSTEAD.items():
        step = step.replace(ours, theirs)
    if MINE.search(step):
        parts = [_alternatives(part) for part in re.split(r"(?<=[.;])\s+", step)]
        kept = " ".join(part for part in parts if part).rstrip(";")
        step = f"{kept[:1].upper()}{kept[1:]}" if kept else OWNER
        step = step if step.endswith(".") or "kubectl" in step else f"{step}."
    return replace(finding, cause=cause, next_step=step)


def _alternatives(part: str) -> str:
    """Of what a person could do instead of each other, what can be done."""
    if not MINE.search(part):
        return part
    kept = ", or ".join(each for each in part.split(", or ") if not MINE.search(each))
    return f"{kept[:1].upper()}{kept[1:]}"


def for_others(facts: ClusterFacts, problem: Problem) -> Problem:
    """A problem of a node that gpusmith did not set up, with a step of whoever did: a device plugin's owner is named."""
    view = facts.view
    if facts.host.managed or view is None:
        return problem if facts.host.managed else replace(problem, next_step=ASK, cure=Cure.PERSON)
    if "the device plugin's log" not in problem.next_step or not view.plugins:
        return problem
    namespace, name = view.plugins[0].split("/")
    log = f"Read the log of the device plugin of {view.plugin_owners[0]}: kubectl -n {namespace} logs {name}"
    # What else the step says.
    more = problem.next_step.partition(READ_LOG)[2]
    step = f"{log}.{more}" if more else log
    return replace(problem, next_step=step)


def for_owner(check: str, host: NodeWanted, problem: Problem) -> Problem:
    """A problem with a next step that its owner can take."""
    roles = PARTS.get(check, ())
    if check == SERVICES:
        roles = [role for words, role in UNITS.items() if words in problem.cause][:1]
    if not roles or any(host.manages(role) for role in roles) or problem.cure is Cure.PLUGIN:
        return problem
    step = OR_SITE.sub("", problem.next_step)
    if not re.search(rf"site\.yml|playbooks/|'(?:{'|'.join(roles)})_", step):
        return replace(problem, next_step=step)
    owners = " and ".join(f"'{role}_owner: {EXISTING}'" for role in roles)
    return replace(
        problem, next_step=f"Have whoever installs it set that right ({owners}).", cure=Cure.PERSON
    )
