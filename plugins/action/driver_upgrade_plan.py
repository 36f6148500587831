"""Action plugin: the plan of a driver upgrade, before anything happens."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible.utils.display import Display
from ansible_collections.gpusmith.gpu.plugins.plugin_utils import planning
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.claiming import claim, machine
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import ControllerAction
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import Variables

from gpusmith.change import ledger as ledgers
from gpusmith.change.budget import Fleet, Rules
from gpusmith.cluster import keeper
from gpusmith.cluster.api import Cluster, Object
from gpusmith.cluster.machines import nodes_for
from gpusmith.data import compatibility, models
from gpusmith.errors import Refusal
from gpusmith.expect.identity import Machine
from gpusmith.paths import working_root
from gpusmith.preflight import table as preflight_table
from gpusmith.preflight.words import Tables
from gpusmith.upgrade import plan as plans
from gpusmith.upgrade import previous
from gpusmith.upgrade.hosts import STAMPED, Asked, Look, Staging
from gpusmith.upgrade.plan import Plan, Row
from gpusmith.verdict.changes import TELLS


@dataclass(frozen=True)
class User:
    """A process that uses the driver, as module driver_state tells it."""

    words: str
    pod_uid: str | None = None


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
        looks = [self._look(host, of, found, asked, wrong.get(host, [])) for host in hosts]
        rules = Rules(
            run=mine.run,
            target=next((look.target for look in looks if look.target), ""),
            max_unavailable=asked["max_unavailable"],
            canaries=asked["canary"],
            soak_s=asked["soak"],
            max_failures=asked["max_failures"],
            rollback=asked["back"],
        )
        plan = plans.make(
            looks,
            Fleet.of(found.nodes.values(), found.members, STAMPED),
            rules,
            Asked(
                dt.datetime.now(dt.UTC),
                of.wanted(hosts[0]).operands.namespace,
                asked["back"],
                asked["reboot"] == "if_needed",
                self._staging(asked, found, of),
            ),
            cluster.items(planning.BUDGETS),
            Tables(models.load(), compatibility.load()),
        )
        folder = working_root() / asked["report_dir"] / mine.run
        planning.show(plan, folder)
        answer = {**_answer(plan, machines, found, asked["back"]), "run": mine.run, "folder": str(folder)}
        if plan.refused:
            return {
                **answer,
                "failed": True,
                "msg": "Nothing was changed: what is refused stands in the table above.",
            }
        if check:
            answer[TELLS] = {
                row.name: {"changes": {"more": [_in_words(row)]}} for row in plan.rows if row.goes
            }
        elif plan.queue:
            keeper.start(lambda: Cluster(asked["kubeconfig"]), mine, Display().display)
        return answer

    # --- what is read ----------------------------------------------------------------------------------------------

    def _look(
        self,
        host: str,
        of: Variables,
        found: planning.Found,
        asked: Mapping[str, Any],
        wrong: list[Refusal],
    ) -> Look:
        said, wanted = of.written(host), of.wanted(host)
        node = found.nodes.get(wanted.node_name)
        used = said.get("__gpu_upgrade_used") or {}
        answered = (said.get("node_record_now") or {}).get("record")
        target = _before(node) if asked["back"] else _chosen(host, said) or asked["version"]
        return Look(
            name=host,
            node=node,
            target=target,
            raw=answered,
            wanted=wanted,
            pods=found.pods.get(wanted.node_name, []),
            claims=found.claims,
            users=_users(used),
            kept=[str(name) for name in used.get("kept") or []],
            refusals=_of_preflight(said, asked["back"]),
            strangers=wrong,
        )

    def _staging(self, asked: Mapping[str, Any], found: planning.Found, of: Variables) -> Staging:
        group = asked["requires_group"]
        if not group:
            return Staging()
        hosts = self.variables.get("groups", {}).get(group, [])
        nodes = {host: found.nodes.get(of.wanted(host).node_name) for host in hosts}
        return Staging(group, nodes, asked["requires_hours"])


def _users(used: Mapping[str, Any]) -> list[User]:
    """Processes that would keep the driver from being unloaded, each with its pod."""
    words = {str(text).split()[1]: str(text) for text in used.get("users") or []}
    pids = [(str(row["pid"]), row.get("pod_uid")) for row in used.get("holders") or []]
    return [User(words[pid], pod) for pid, pod in pids if pid in words]


def _of_preflight(said: Mapping[str, Any], back: bool) -> list[Refusal]:
    """What the look at machine and repositories found; a rollback needs none."""
    return [] if back else preflight_table.of_host(said.get("__preflight_answer"))


def _chosen(host: str, said: Mapping[str, Any]) -> str:
    """What a branch, or the latest version, is in this run; empty where an exact one is asked for."""
    row = ((said.get("nvidia_driver_choice") or {}).get("hosts") or {}).get(host) or {}
    return str(row.get("version") or "")


def _before(node: Object | None) -> str:
    """The version that a node had before its last upgrade; empty if it remembers none."""
    entry = None
    if node is not None:
        try:
            entry = ledgers.read(node)
        except ledgers.Unreadable:
            return ""
    if entry is not None and not entry.finished:
        return entry.target if entry.rollback else entry.origin
    return str(previous.read(node or {}).get("version") or "")


def _in_words(row: Row) -> str:
    when = f"in wave {row.wave}" if row.wave else "when there is room"
    return f"gets driver {row.target} instead of {row.origin} {when}"


def _answer(plan: Plan, machines: Mapping[str, Machine], found: planning.Found, back: bool) -> dict[str, Any]:
    rows = {}
    for row in plan.rows:
        member = plan.fleet.members.get(row.node)
        upgrade = member is not None and member.begun and not (member.ledger and member.ledger.rollback)
        rows[row.name] = {
            "node": row.node,
            "target": row.target,
            "origin": row.origin,
            "flavour": (machines[row.name].record.module.flavour or "") if row.name in machines else "",
            "gpus": row.gpus,
            "model": row.model,
            "action": str(row.action),
            "reason": row.reason,
            # An unfinished rollback goes on; an unfinished upgrade is taken back.
            "back": back and upgrade,
            "rollback": back and not upgrade,
        }
    return {
        "changed": False,
        "hosts": rows,
        "members": found.members,
        "queue": list(plan.queue),
        "queued_hosts": [row.name for row in plan.rows if row.goes],
    }
