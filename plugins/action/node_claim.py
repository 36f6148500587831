"""Action plugin: whether the machines of a run are those that the inventory means, and the claim on their nodes."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from typing import Any

from ansible.utils.display import Display
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.claiming import claim, machine
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import ControllerAction
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import Variables

from gpusmith.cluster import keeper
from gpusmith.cluster.api import Cluster
from gpusmith.cluster.machines import nodes_for
from gpusmith.errors import Refusal
from gpusmith.expect import identity
from gpusmith.expect.identity import Verdict
from gpusmith.preflight import table

CORDONED = "Node '{0}' is cordoned: it takes no pods until 'kubectl uncordon {0}'."


class ActionModule(ControllerAction):
    """Refuses the whole run before any change; what it claims is given back when the run ends."""

    def act(self, asked: dict[str, Any], check: bool) -> dict[str, Any]:
        hosts = list(self.variables.get("ansible_play_hosts_all", []))
        of = Variables(self.variables.get("hostvars"), self._loader)
        written = {host: of.written(host) for host in hosts}
        machines = [found for host in hosts if (found := machine(host, of))]
        cluster = Cluster(asked["kubeconfig"]) if asked["kubeconfig"] else None
        seen = nodes_for(cluster, machines) if cluster else None
        cordoned, upgrading = (seen.cordoned, seen.upgrading) if seen else ((), {})
        alike = identity.Machines(machines)
        verdicts = {row.host: identity.judge(row, alike, seen.nodes if seen else None) for row in machines}
        refused = {
            host: _refusals(verdicts.get(host))
            + ([upgrading[host]] if host in upgrading else [])
            + (table.of_host(written[host].get(asked["preflight"])) if asked["preflight"] else [])
            for host in hosts
        }
        result: dict[str, Any] = {
            "changed": False,
            "cordoned": list(cordoned),
            "refused": {
                host: [*table.table({host: rows}), "The other hosts go on."]
                for host, rows in refused.items()
                if rows
            },
        }
        if asked["preflight"] and cordoned:
            result["verdict"] = {
                row.host: {"notes": [CORDONED.format(row.node)]}
                for row in machines
                if row.node in cordoned and row.host not in upgrading
            }
        if notes := [
            f"{row.cause} {row.next_step}".strip() for each in verdicts.values() for row in each.notes
        ]:
            result["warnings"] = notes
        wrong = any(verdict.problems for verdict in verdicts.values())
        if wrong or (asked["bad_host"] == "refuse_all" and any(refused.values())):
            return {**result, "failed": True, "msg": [*table.table(refused), "Nothing was changed."]}
        mine = {row.node: row.machine_id for row in machines if not refused[row.host]}
        if cluster and mine and not check:
            keeper.start(lambda: Cluster(asked["kubeconfig"]), claim(mine), Display().display)
        return result


def _refusals(verdict: Verdict | None) -> list[Refusal]:
    return [Refusal(row.cause, row.next_step) for row in (verdict.problems if verdict else ())]
