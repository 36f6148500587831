"""Action plugin: the plan of a layout change, before anything happens."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils import planning
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import ControllerAction

from gpusmith.change.budget import Rules
from gpusmith.cluster.api import Object
from gpusmith.cluster.stamps import LAYOUT
from gpusmith.expect import mig, mps
from gpusmith.node.records import parse
from gpusmith.relayout import plan as plans
from gpusmith.wanted import layouts
from gpusmith.wanted.node import NodeWanted


class ActionModule(ControllerAction):
    """Judges all hosts of the play at once."""

    def act(self, asked: dict[str, Any], check: bool) -> dict[str, Any]:
        seen = planning.see(self.variables, self._loader, asked["kubeconfig"])
        looks = [
            plans.Look(
                wanted,
                node,
                host in seen.machines,
                seen.pods.get(wanted.node_name, []),
                seen.claims,
                seen.wrong.get(host, []),
                _astray(wanted, node, seen.record(host)) if node else "",
            )
            for host in seen.hosts
            for wanted in [seen.of.wanted(host)]
            for node in [seen.nodes.get(wanted.node_name)]
        ]
        rules = Rules(
            run=seen.claim.run,
            target="",
            max_unavailable=asked["max_unavailable"],
            canaries=asked["canary"],
            soak_s=asked["soak"],
            max_failures=asked["max_failures"],
        )
        plan = plans.make(
            looks,
            seen.fleet(LAYOUT),
            rules,
            dt.datetime.now(dt.UTC),
            seen.cluster.items(planning.BUDGETS),
            looks[0].wanted.operands.namespace,
        )
        more = {look.name: {"back": look.back} for look in looks}
        words = "layout '{target}' instead of '{origin}'"
        answer: dict[str, Any] = planning.conclude(plan, seen, asked["report_dir"], check, more, words)
        return answer


def _astray(wanted: NodeWanted, node: Object, record: Mapping[str, Any]) -> str:
    """How a machine's GPUs are divided in another way than its Node says; nothing of one that was not looked at."""
    if not record:
        return ""
    seen, layout = parse(record), layouts.of_node(node)
    found = mig.problems(seen, mig.wanted(wanted, layout))
    # A daemon that does not run is no matter of the layout.
    found += [] if layout.mps else mps.left(seen, wanted.name)
    return "; ".join(problem.cause.removeprefix(f"Node '{wanted.name}': ") for problem in found)
