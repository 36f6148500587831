"""Checks of the nodes tier on the container runtime: its effective configuration, and that the running one has it."""

from __future__ import annotations

from gpusmith.expect import containerd as expected
from gpusmith.expect.wanted import runtime_of
from gpusmith.node.facts import NodeFacts
from gpusmith.problems import Problem


def containerd(facts: NodeFacts) -> list[Problem]:
    """What containerd would really use, all its files merged."""
    return expected.configuration(facts.record, runtime_of(facts.host))
