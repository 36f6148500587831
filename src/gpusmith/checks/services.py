"""Checks of the nodes tier on what must run beside the GPUs: services and the NVSwitch fabric."""

from __future__ import annotations

from gpusmith.checks.findings import NotApplicable
from gpusmith.checks.register import check
from gpusmith.expect import changes, imex, kubelet
from gpusmith.expect import fabric as expected_fabric
from gpusmith.expect import services as expected
from gpusmith.expect.choice import driver_of
from gpusmith.node.facts import NodeFacts
from gpusmith.problems import Problem


@check(
    "nodes.services",
    place=80,
    proves="container runtime, kubelet and the driver's daemons run and are enabled; the kubelet's certificate is valid",
    fails_when=(
        "one does not run, would not run after a reboot, or runs with changed unit files or an unproved change; or the"
        " certificate has expired"
    ),
    do="read 'journalctl -u NAME' on the node, then start or enable it, or run site.yml",
    critical=True,
)
def services(facts: NodeFacts) -> list[Problem]:
    """Runtime, kubelet and persistence daemon run and are enabled; what boots need is enabled."""
    record, node = facts.record, facts.host.name
    return [
        *expected.containerd(record, node),
        *kubelet.service(record, node),
        *kubelet.expired(record, node),
        *expected.persistence(record, node),
        *expected.loader(record, node),
        *expected.devices(record, node),
        *expected.of_system(record, node),
        *(problem for role in changes.OF for problem in changes.unproved(record, node, role)),
    ]


@check(
    "nodes.fabric",
    place=90,
    proves=(
        "where there are NVSwitches: the fabric manager runs with all that it needs, no switch failed, and every GPU has"
        " joined the fabric"
    ),
    fails_when=(
        "the fabric manager is down, has another version or lacks something that it needs, a switch failed, or a GPU has"
        " not joined"
    ),
    do="read 'journalctl -u nvidia-fabricmanager'; drain, then reset all GPUs and switches or reboot",
    critical=True,
)
def fabric(facts: NodeFacts) -> list[Problem]:
    """Where there are NVSwitches, CUDA works only after fabric manager has joined every GPU."""
    wanted = driver_of(facts.host, facts.model, facts.record)
    if not expected_fabric.needed(facts.record, wanted):
        found = expected_fabric.waiting(facts.record, wanted)
        if found:
            return found
        raise NotApplicable(f"Node '{facts.host.name}' shows no NVSwitches, and none are missing.")
    return expected_fabric.problems(facts.record, wanted)


@check(
    "nodes.imex",
    place=92,
    proves="where the inventory names the nodes of an IMEX domain: the service runs with these nodes, now and after a reboot",
    fails_when=(
        "its list of nodes is missing or has others, or the service does not run or would not run after a reboot; or gpusmith's"
        " list is still there, and the inventory names no nodes"
    ),
    do=(
        "run site.yml; if the service runs with other nodes on a node that serves, stop it on all nodes of the domain first"
    ),
)
def imex_domain(facts: NodeFacts) -> list[Problem]:
    """GPUs of several machines share memory only if all of them know the same nodes."""
    record, wanted = facts.record, driver_of(facts.host, facts.model, facts.record)
    if not wanted.imex_nodes and not imex.ours(record):
        raise NotApplicable(f"The inventory names no IMEX domain for '{facts.host.name}'.")
    return [*imex.kept(record, wanted), *imex.problems(record, wanted)]
