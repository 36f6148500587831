"""Checks on whether a node answers at all: without its record nobody can judge the rest."""

from __future__ import annotations

from typing import Any

from gpusmith.checks.findings import NotApplicable
from gpusmith.checks.register import Reads, check
from gpusmith.node.connections import Probed
from gpusmith.problems import Problem


def _seen(probed: Probed) -> dict[str, Any]:
    if probed.record is None:
        return {}
    host = probed.record.host
    return {"boot_id": host.boot_id, "kernel": host.kernel, "holes": list(probed.record.errors)}


@check(
    "nodes.reachable",
    place=10,
    proves="the node answers over ssh, or by a pod with --facts privileged, and its record could be read",
    fails_when="ssh gets no answer, the host key is a different one, no pod can look there, or the probe prints no record",
    do="try 'ssh' to the node as Ansible does, and correct 'ansible_host', user or key; a changed host key is named",
    critical=True,
    reads=Reads.ANSWER,
    evidence=_seen,
)
def reachable(probed: Probed) -> list[Problem]:
    """There is a record."""
    if probed.not_asked:
        raise NotApplicable(probed.problem)
    return [] if probed.record is not None else [Problem(probed.problem, probed.hint)]
