"""What plans of changes have in common: one look at the cluster for all hosts, and the table that a person sees."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible.utils.display import Display
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import Variables

from gpusmith.cluster import dra
from gpusmith.cluster.api import Cluster, Object
from gpusmith.cluster.dra import NO_CLAIMS, Claims
from gpusmith.cluster.views import PODS
from gpusmith.errors import Refusal
from gpusmith.expect import identity
from gpusmith.expect.identity import Machine, Nodes
from gpusmith.inventory.target import GPU_GROUP
from gpusmith.upgrade import plan as plans
from gpusmith.upgrade import table
from gpusmith.upgrade.plan import Plan

BUDGETS = "/apis/policy/v1/poddisruptionbudgets"
WHOLE = "driver upgrades"
"""Stands in a claim for the budget of GPUs, which two changes at once would each use up. Older releases look for this name."""
FILE = "plan.json"


@dataclass(frozen=True)
class Found:
    """What was read for the plan, once for all hosts.

    Attributes:
        nodes: Node objects by name.
        pods: by name of their Node.
        claims: of these pods.
        members: Nodes of the inventory, each with the number of its GPUs.
    """

    nodes: Mapping[str, Object]
    members: Mapping[str, int]
    pods: Mapping[str, list[Object]] = field(default_factory=dict)
    claims: Claims = NO_CLAIMS


def found(
    cluster: Cluster, nodes: Mapping[str, Object], variables: Mapping[str, Any], of: Variables
) -> Found:
    """Read it.

    Args:
        cluster: the API.
        nodes: Node objects by name.
        variables: of the task.
        of: those of all hosts.
    """
    members = {}
    for host in variables.get("groups", {}).get(GPU_GROUP, []):
        wanted = of.wanted(host)
        members[wanted.node_name] = wanted.gpu_count
    pods: dict[str, list[Object]] = {}
    for pod in cluster.items(PODS):
        pods.setdefault(str((pod.get("spec") or {}).get("nodeName") or ""), []).append(pod)
    mine = [pod for name in members for pod in pods.get(name, [])]
    return Found(nodes, members, pods, dra.read(cluster, mine))


def wrong_machines(machines: list[Machine], nodes: Nodes) -> dict[str, list[Refusal]]:
    """By host, why its machine is not the one whose Node is meant."""
    alike = identity.Machines(machines)
    return {
        row.host: [
            Refusal(found.cause, found.next_step) for found in identity.judge(row, alike, nodes).problems
        ]
        for row in machines
    }


def show(plan: Plan, folder: Path) -> None:
    """Print the table, and keep the plan for programs."""
    display = Display()
    for line in table.lines(plan):
        display.display(line)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    path.write_text(json.dumps(plans.to_json(plan), indent=2, sort_keys=True) + "\n", encoding="utf-8")
    display.display(f"Plan: {path}")
