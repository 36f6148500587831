"""What plans of changes have in common: one look at the cluster for all hosts, and the table that a person sees."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible.utils.display import Display
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.claiming import claim, machine
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import Variables, plain

from gpusmith.change.budget import Fleet
from gpusmith.cluster import dra, keeper
from gpusmith.cluster.api import Cluster, Object
from gpusmith.cluster.claims import Claim
from gpusmith.cluster.dra import Claims
from gpusmith.cluster.machines import nodes_for
from gpusmith.cluster.views import PODS
from gpusmith.errors import Refusal, ToolError
from gpusmith.expect import identity
from gpusmith.expect.identity import Machine, Nodes
from gpusmith.inventory.target import GPU_GROUP
from gpusmith.paths import working_root
from gpusmith.upgrade import plan as plans
from gpusmith.upgrade import table
from gpusmith.upgrade.plan import Plan, Row
from gpusmith.verdict.changes import TELLS

BUDGETS = "/apis/policy/v1/poddisruptionbudgets"
WHOLE = "driver upgrades"
"""Stands in a claim for the budget of GPUs, which two changes at once would each use up. Older releases look for this name."""
FILE = "plan.json"


@dataclass(frozen=True)
class Seen:
    """What was read for a plan, once for all hosts.

    Attributes:
        hosts: of the play.
        of: their variables.
        kubeconfig: of the cluster.
        cluster: the API.
        machines: those of the hosts that answered, by host.
        claim: of this run, on the nodes of these.
        wrong: by host, why its machine is not the one whose Node is meant.
        nodes: Node objects by name.
        members: Nodes of the inventory, each with the number of its GPUs.
        pods: by name of their Node.
        claims: of these pods.
    """

    hosts: Sequence[str]
    of: Variables
    kubeconfig: str
    cluster: Cluster
    machines: Mapping[str, Machine]
    claim: Claim
    wrong: Mapping[str, list[Refusal]]
    nodes: Mapping[str, Object]
    members: Mapping[str, int]
    pods: Mapping[str, list[Object]]
    claims: Claims

    def record(self, host: str) -> Mapping[str, Any]:
        """The last look at a host's machine; empty if it did not answer."""
        return dict(plain((self.of.written(host).get("node_record_now") or {}).get("record") or {}))

    def fleet(self, stamped: str) -> Fleet:
        """All nodes that the budget counts; the argument is that of `Fleet.of`."""
        return Fleet.of(self.nodes.values(), self.members, stamped)


def see(variables: Mapping[str, Any], loader: Any, kubeconfig: str) -> Seen:
    """Look at the cluster; arguments are the task's."""
    hosts = list(variables.get("ansible_play_hosts_all", []))
    of, cluster = Variables(variables.get("hostvars"), loader), Cluster(kubeconfig)
    machines = {host: found for host in hosts if (found := machine(host, of))}
    seen = nodes_for(cluster, machines.values())
    members = {}
    for host in variables.get("groups", {}).get(GPU_GROUP, []):
        wanted = of.wanted(host)
        members[wanted.node_name] = wanted.gpu_count
    pods: dict[str, list[Object]] = {}
    for pod in cluster.items(PODS):
        pods.setdefault(str((pod.get("spec") or {}).get("nodeName") or ""), []).append(pod)
    return Seen(
        hosts,
        of,
        kubeconfig,
        cluster,
        machines,
        claim({row.node: row.machine_id for row in machines.values()} | {WHOLE: ""}),
        _wrong(list(machines.values()), seen.nodes),
        seen.objects,
        members,
        pods,
        dra.read(cluster, [pod for name in members for pod in pods.get(name, [])]),
    )


def _wrong(machines: list[Machine], nodes: Nodes) -> dict[str, list[Refusal]]:
    """By host, why its machine is not the one whose Node is meant."""
    alike = identity.Machines(machines)
    return {
        row.host: [
            Refusal(found.cause, found.next_step) for found in identity.judge(row, alike, nodes).problems
        ]
        for row in machines
    }


def conclude(
    plan: Plan, seen: Seen, report_dir: str, check: bool, more: Mapping[str, Mapping[str, Any]], words: str
) -> dict[str, Any]:
    """Show a plan, and claim its nodes unless it is refused or only looked at; the task's result.

    Args:
        plan: of the run.
        seen: what it rests on.
        report_dir: the run gets a folder in it.
        check: nothing may be changed.
        more: what a node's steps need besides, by host.
        words: what a node gets, with {target} and {origin}.
    """
    folder = working_root() / report_dir / seen.claim.run
    _show(plan, folder)
    answer: dict[str, Any] = {
        "changed": False,
        "hosts": {row.name: {**_row(row), **more[row.name]} for row in plan.rows},
        "members": seen.members,
        "queue": list(plan.queue),
        "queued_hosts": [row.name for row in plan.rows if row.goes],
        "run": seen.claim.run,
        "folder": str(folder),
    }
    if plan.refused:
        said = "Nothing was changed: what is refused stands in the table above."
        return {**answer, "failed": True, "msg": said}
    if check:
        answer[TELLS] = {
            row.name: {"changes": {"more": [f"gets {words.format(**_row(row))} {_when(row)}"]}}
            for row in plan.rows
            if row.goes
        }
    elif plan.queue:
        keeper.start(lambda: Cluster(seen.kubeconfig), seen.claim, Display().display)
    return answer


def _row(row: Row) -> dict[str, Any]:
    names = ("node", "target", "origin", "gpus", "model", "reason")
    return {**{name: getattr(row, name) for name in names}, "action": str(row.action)}


def _when(row: Row) -> str:
    return f"in wave {row.wave}" if row.wave else "when there is room"


def _show(plan: Plan, folder: Path) -> None:
    """Print the table, and keep the plan for programs.

    Raises:
        ToolError: the folder cannot be written.
    """
    display = Display()
    for line in table.lines(plan):
        display.display(line)
    path = folder / FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(plans.to_json(plan), indent=2, sort_keys=True) + "\n", encoding="utf-8")
    except OSError as error:
        raise ToolError(
            f"The plan cannot be written to '{error.filename or path}': {error.strerror}.",
            "Make room there, or name another folder with 'gpu_upgrade_report_dir'.",
        ) from error
    display.display(f"Plan: {path}")
