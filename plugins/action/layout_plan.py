"""Action plugin: the plan of a layout change, before anything happens."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import datetime as dt
from typing import Any

from ansible.utils.display import Display
from ansible_collections.gpusmith.gpu.plugins.plugin_utils import planning
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.claiming import claim, machine
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import ControllerAction
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import Variables

from gpusmith.change.budget import Fleet, Rules
from gpusmith.cluster import keeper
from gpusmith.cluster.api import Cluster
from gpusmith.cluster.machines import nodes_for
from gpusmith.cluster.stamps import LAYOUT
from gpusmith.paths import working_root
from gpusmith.relayout import plan as plans
from gpusmith.upgrade.plan import Row
from gpusmith.verdict.changes import TELLS


class ActionModule(ControllerAction):
    """Judges all hosts of the play at once."""

    def act(self, asked: dict[str, Any], check: bool) -> dict[str, Any]:
        hosts = list(self.variables.get("ansible_play_hosts_all", []))
        of = Variables(self.variables.get("hostvars"), self._loader)
        cluster = Cluster(asked["kubeconfig"])
        machines = {host: found for host in hosts if (found := machine(host, of))}
        seen = nodes_for(cluster, machines.values())
        found = planning.found(cluster, seen.objects, self.variables, of)
        mine = claim({row.node: row.machine_id for row in machines.values()} | {planning.WHOLE: ""})
        wrong = planning.wrong_machines(list(machines.values()), seen.nodes)
        looks = [
            plans.Look(
                wanted,
                found.nodes.get(wanted.node_name),
                host in machines,
                found.pods.get(wanted.node_name, []),
                found.claims,
                wrong.get(host, []),
            )
            for host in hosts
            for wanted in [of.wanted(host)]
        ]
        rules = Rules(
            run=mine.run,
            target="",
            max_unavailable=asked["max_unavailable"],
            canaries=asked["canary"],
            soak_s=asked["soak"],
            max_failures=asked["max_failures"],
        )
        plan = plans.make(
            looks,
            Fleet.of(found.nodes.values(), found.members, LAYOUT),
            rules,
            dt.datetime.now(dt.UTC),
            cluster.items(planning.BUDGETS),
            of.wanted(hosts[0]).operands.namespace,
        )
        folder = working_root() / asked["report_dir"] / mine.run
        planning.show(plan, folder)
        back = {look.name for look in looks if look.back}
        answer: dict[str, Any] = {
            "changed": False,
            "hosts": {row.name: _plain(row, row.name in back) for row in plan.rows},
            "members": found.members,
            "queue": list(plan.queue),
            "queued_hosts": [row.name for row in plan.rows if row.goes],
            "run": mine.run,
            "folder": str(folder),
        }
        if plan.refused:
            said = "Nothing was changed: what is refused stands in the table above."
            return {**answer, "failed": True, "msg": said}
        if check:
            answer[TELLS] = {
                row.name: {"changes": {"more": [_in_words(row)]}} for row in plan.rows if row.goes
            }
        elif plan.queue:
            keeper.start(lambda: Cluster(asked["kubeconfig"]), mine, Display().display)
        return answer


def _plain(row: Row, back: bool) -> dict[str, Any]:
    return {
        "node": row.node,
        "target": row.target,
        "origin": row.origin,
        "gpus": row.gpus,
        "model": row.model,
        "action": str(row.action),
        "reason": row.reason,
        "back": back,
    }


def _in_words(row: Row) -> str:
    when = f"in wave {row.wave}" if row.wave else "when there is room"
    return f"gets layout '{row.target}' instead of '{row.origin}' {when}"
