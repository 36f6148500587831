"""Checks of the nodes tier on what must run beside the GPUs: services and the NVSwitch fabric."""

from __future__ import annotations

from gpusmith.expect import fabric as expected_fabric
from gpusmith.expect import kubelet
from gpusmith.expect import services as expected
from gpusmith.expect.wanted import driver_of
from gpusmith.findings import NotApplicable
from gpusmith.node.facts import NodeFacts
from gpusmith.problems import Problem


def services(facts: NodeFacts) -> list[Problem]:
    """Runtime, kubelet and persistence daemon run and are enabled; what boots need is enabled."""
    record, node = facts.record, facts.host.name
    return [
        *expected.containerd(record, node),
        *kubelet.service(record, node),
        *expected.persistence(record, node),
        *expected.loader(record, node),
        *expected.devices(record, node),
        *expected.of_system(record, node),
    ]


def fabric(facts: NodeFacts) -> list[Problem]:
    """Where there are NVSwitches, CUDA works only after fabric manager has joined every GPU."""
    wanted = driver_of(facts.host, facts.model)
    if not expected_fabric.needed(facts.record, wanted):
        raise NotApplicable(f"Node '{facts.host.name}' has no NVSwitches.")
    return expected_fabric.problems(facts.record, wanted)
