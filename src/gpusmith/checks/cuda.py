"""Checks of the nodes tier on CUDA toolkits, which some nodes have for people who build there."""

from __future__ import annotations

from gpusmith.checks.findings import CannotAsk, NotApplicable
from gpusmith.checks.register import check
from gpusmith.expect import node_versions
from gpusmith.expect.choice import driver_of
from gpusmith.node.facts import NodeFacts
from gpusmith.problems import Problem


@check(
    "nodes.cuda-toolkits",
    place=55,
    proves="programs of every CUDA toolkit of the node run with its driver and on its GPUs",
    fails_when=(
        "the driver's branch is older than the toolkit's major version needs, unless its package 'cuda-compat' is there, or"
        " the toolkit is too old or too new for a GPU; one of an unknown major version is named, and the check skipped"
    ),
    do="upgrade the driver, or install a toolkit that fits ('cuda_toolkit_versions'), and remove the one that does not",
    evidence=lambda facts: node_versions.cuda_evidence(facts.record),
    explained_by=("nodes.driver-versions",),
)
def cuda_toolkits(facts: NodeFacts) -> list[Problem]:
    """What lies in /usr/local, whoever installed it: who builds with it learns only at a program's start that it does not fit."""
    record, node = facts.record, facts.host.name
    if not record.cuda.versions:
        raise NotApplicable(f"Node '{node}' has no CUDA toolkit; containers bring their own.")
    found = node_versions.cuda(record, driver_of(facts.host, facts.model, record))
    if found:
        return found
    if node_versions.driver_version(record) is None:
        raise CannotAsk(
            f"Node '{node}' has no driver that its CUDA toolkits could run with; see nodes.driver-versions."
        )
    unknown = node_versions.cuda_unknown(record)
    if unknown:
        raise NotApplicable(f"Node '{node}': {unknown}")
    return []
