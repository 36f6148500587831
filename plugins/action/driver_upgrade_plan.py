"""Action plugin: the plan of a driver upgrade, before anything happens."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils import planning
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import ControllerAction

from gpusmith.change import ledger as ledgers
from gpusmith.change.budget import Rules
from gpusmith.cluster.api import Object
from gpusmith.data import compatibility, models
from gpusmith.errors import Refusal
from gpusmith.expect.identity import Machine
from gpusmith.preflight import table as preflight_table
from gpusmith.preflight.words import Tables
from gpusmith.upgrade import plan as plans
from gpusmith.upgrade import previous
from gpusmith.upgrade.hosts import STAMPED, Asked, Look, Staging
from gpusmith.upgrade.plan import Plan, Row


@dataclass(frozen=True)
class User:
    """A process that uses the driver, as module driver_state tells it."""

    words: str
    pod_uid: str | None = None


class ActionModule(ControllerAction):
    """Judges all hosts of the play at once."""

    def act(self, asked: dict[str, Any], check: bool) -> dict[str, Any]:
        seen = planning.see(self.variables, self._loader, asked["kubeconfig"])
        looks = [self._look(host, seen, asked) for host in seen.hosts]
        rules = Rules(
            run=seen.claim.run,
            target=next((look.target for look in looks if look.target), ""),
            max_unavailable=asked["max_unavailable"],
            canaries=asked["canary"],
            soak_s=asked["soak"],
            max_failures=asked["max_failures"],
            rollback=asked["back"],
        )
        plan = plans.make(
            looks,
            seen.fleet(STAMPED),
            rules,
            Asked(
                dt.datetime.now(dt.UTC),
                seen.of.wanted(seen.hosts[0]).operands.namespace,
                asked["back"],
                asked["reboot"] == "if_needed",
                self._staging(asked, seen),
            ),
            seen.cluster.items(planning.BUDGETS),
            Tables(models.load(), compatibility.load()),
        )
        more = {row.name: _more(plan, row, seen.machines.get(row.name), asked["back"]) for row in plan.rows}
        words = "driver {target} instead of {origin}"
        answer: dict[str, Any] = planning.conclude(plan, seen, asked["report_dir"], check, more, words)
        return answer

    # --- what is read ----------------------------------------------------------------------------------------------

    def _look(self, host: str, seen: planning.Seen, asked: Mapping[str, Any]) -> Look:
        said, wanted = seen.of.written(host), seen.of.wanted(host)
        node = seen.nodes.get(wanted.node_name)
        used = said.get("__gpu_upgrade_used") or {}
        answered = (said.get("node_record_now") or {}).get("record")
        target = _before(node) if asked["back"] else _chosen(host, said) or asked["version"]
        return Look(
            name=host,
            node=node,
            target=target,
            raw=answered,
            wanted=wanted,
            pods=seen.pods.get(wanted.node_name, []),
            claims=seen.claims,
            users=_users(used),
            kept=[str(name) for name in used.get("kept") or []],
            refusals=_of_preflight(said, asked["back"]),
            strangers=seen.wrong.get(host, []),
        )

    def _staging(self, asked: Mapping[str, Any], seen: planning.Seen) -> Staging:
        group = asked["requires_group"]
        if not group:
            return Staging()
        hosts = self.variables.get("groups", {}).get(group, [])
        nodes = {host: seen.nodes.get(seen.of.wanted(host).node_name) for host in hosts}
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


def _more(plan: Plan, row: Row, machine: Machine | None, back: bool) -> dict[str, Any]:
    """What the steps of a driver's change need besides."""
    member = plan.fleet.members.get(row.node)
    upgrade = member is not None and member.begun and not (member.ledger and member.ledger.rollback)
    return {
        "flavour": (machine.record.module.flavour or "") if machine else "",
        # An unfinished rollback goes on; an unfinished upgrade is taken back.
        "back": back and upgrade,
        "rollback": back and not upgrade,
    }
