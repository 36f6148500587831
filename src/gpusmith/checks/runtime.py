"""Checks of the nodes tier on the container runtime: its effective configuration, its CRI plugin, and its releases."""

from __future__ import annotations

from gpusmith.checks.findings import CannotAsk, NotApplicable
from gpusmith.checks.register import check
from gpusmith.data.operands import DEVICE_PLUGIN
from gpusmith.expect import containerd as expected
from gpusmith.expect import node_versions
from gpusmith.expect.wanted import runtime_of
from gpusmith.node.facts import NodeFacts
from gpusmith.problems import Problem


def _need_containerd(facts: NodeFacts) -> None:
    """Raise of a node that runs its containers otherwise, as with CRI-O, or with the containerd of a distribution."""
    if not facts.has_unit("containerd"):
        raise NotApplicable(
            f"Node '{facts.host.name}' has no service 'containerd': others run its containers."
        )


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
    _need_containerd(facts)
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
    _need_containerd(facts)
    return expected.cri(facts.record, facts.host.name)


@check(
    "nodes.containerd-version",
    place=162,
    proves="the node's containerd is a release that its Kubernetes supports",
    fails_when=(
        "containerd's table of Kubernetes versions excludes the two; if it has no row for them, the check is skipped and"
        " says so"
    ),
    do="set 'containerd_version' to a release that is named, then run site.yml with 'gpusmith_change_runtime_on_joined'",
    evidence=lambda facts: node_versions.containerd_evidence(facts.record),
)
def containerd_version(facts: NodeFacts) -> list[Problem]:
    """What preflight asks of the inventory's versions, of those that are there: others may have set the node up."""
    record, node = facts.record, facts.host.name
    _need_containerd(facts)
    if not record.containerd.version:
        raise CannotAsk(f"Node '{node}': containerd does not tell its version; see nodes.services.")
    if not record.kubernetes.kubelet_version:
        raise CannotAsk(f"Node '{node}': the kubelet does not tell its version; see nodes.services.")
    unknown = node_versions.containerd_unknown(record)
    if unknown:
        raise NotApplicable(f"Node '{node}': {unknown}")
    return node_versions.containerd(record, node)


@check(
    "nodes.container-toolkit",
    place=168,
    proves="the container toolkit is not a release that harms nodes, and uses CDI where gpusmith's device plugin hands out GPUs",
    fails_when="it is a release of which such an error is known, or older than 1.18 with gpusmith's device plugin",
    do=(
        "set 'nvidia_container_toolkit_version' to a release that is named, then run site.yml with"
        " 'gpusmith_change_runtime_on_joined'"
    ),
    evidence=lambda facts: {"container_toolkit": node_versions.container_toolkit_of(facts.record)},
)
def container_toolkit(facts: NodeFacts) -> list[Problem]:
    """A release that was installed by somebody else, or before its error was known."""
    record, node = facts.record, facts.host.name
    if node_versions.container_toolkit_of(record) is None:
        if not record.containerd.runtime_binary_found and facts.host.managed:
            raise CannotAsk(f"Node '{node}' has no container toolkit; see nodes.containerd.")
        raise NotApplicable(
            f"No package brought the container toolkit of '{node}', so that nothing tells its release."
        )
    return node_versions.container_toolkit(record, node, DEVICE_PLUGIN in facts.host.operands.ours)
