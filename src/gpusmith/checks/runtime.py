"""Checks of the nodes tier on the container runtime: its effective configuration, that it runs with it, and its CRI plugin."""

from __future__ import annotations

from gpusmith.checks.register import check
from gpusmith.expect import containerd as expected
from gpusmith.expect.wanted import runtime_of
from gpusmith.node.facts import NodeFacts
from gpusmith.problems import Problem


@check(
    "nodes.containerd",
    place=160,
    proves=(
        "containerd runs with its present configuration, which has the nvidia runtime (only for pods that request it),"
        " systemd cgroups and CDI"
    ),
    fails_when=(
        "the merged configuration lacks one of these, every pod gets the runtime, or containerd was started with another"
        " configuration"
    ),
    do="run site.yml; a file in /etc/containerd that overrides gpusmith's must be corrected first",
    critical=True,
)
def containerd(facts: NodeFacts) -> list[Problem]:
    """What containerd would really use, all its files merged."""
    return expected.configuration(facts.record, runtime_of(facts.host))


@check(
    "nodes.cri",
    place=165,
    proves="containerd's CRI plugin, which the kubelet talks to, is up",
    fails_when="containerd runs without it, which happens if the plugin could not be started, or containerd cannot be asked",
    do="run site.yml, which restarts containerd once; remove the cause that the plugin's error message names",
    critical=True,
)
def cri(facts: NodeFacts) -> list[Problem]:
    """Containerd can run without the CRI plugin, which the kubelet needs."""
    return expected.cri(facts.record, facts.host.name)
