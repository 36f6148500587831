"""Checks of the nodes tier on the container runtime: its effective configuration, and that the running one has it."""

from __future__ import annotations

from gpusmith.checks.register import check
from gpusmith.expect import containerd as expected
from gpusmith.expect.wanted import runtime_of
from gpusmith.node.facts import NodeFacts
from gpusmith.problems import Problem


@check(
    "nodes.containerd",
    place=160,
    proves="containerd runs with its configuration, which has the nvidia runtime, for those who ask, systemd cgroups and CDI",
    fails_when="the merged configuration lacks one of these, every pod gets the runtime, or containerd began with another one",
    do="run site.yml; a file in /etc/containerd that overrides ours has to go",
    critical=True,
)
def containerd(facts: NodeFacts) -> list[Problem]:
    """What containerd would really use, all its files merged."""
    return expected.configuration(facts.record, runtime_of(facts.host))
