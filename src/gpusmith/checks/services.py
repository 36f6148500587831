"""Checks of the nodes tier on what must run beside the GPUs: services and the NVSwitch fabric."""

from __future__ import annotations

from gpusmith.checks.findings import NotApplicable
from gpusmith.checks.register import check
from gpusmith.expect import changes, kubelet
from gpusmith.expect import fabric as expected_fabric
from gpusmith.expect import services as expected
from gpusmith.expect.choice import driver_of
from gpusmith.node.facts import NodeFacts, need_answers
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
        *(expected.containerd(record, node) if facts.has_unit("containerd") else ()),
        *(kubelet.service(record, node) if facts.has_unit("kubelet") else ()),
        *kubelet.expired(record, node),
        *expected.persistence(record, node),
        # With one part that is ours, units of ours are asked for; those of the others come with no role.
        *(expected.loader(record, node) if facts.host.manages("nvidia_driver") else ()),
        *expected.devices(record, node, facts.host.manages("nvidia_container_toolkit")),
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
    explained_by=("nodes.driver-versions",),
)
def fabric(facts: NodeFacts) -> list[Problem]:
    """Where there are NVSwitches, CUDA works only after fabric manager has joined every GPU."""
    wanted = driver_of(facts.host, facts.model, facts.record)
    if not expected_fabric.needed(facts.record, wanted):
        found = expected_fabric.waiting(facts.record, wanted)
        if found:
            return found
        raise NotApplicable(f"Node '{facts.host.name}' shows no NVSwitches, and none are missing.")
    problems = expected_fabric.problems(facts.record, wanted)
    if not problems and expected_fabric.tells_state(expected_fabric.models_of(facts.record, wanted)):
        need_answers(facts)
    return problems
