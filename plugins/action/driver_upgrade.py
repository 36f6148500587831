"""Action plugin: one node's driver upgrade, from the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.arguments import arguments
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.built_node import (
    BuildingAction,
    Provider,
    refuse_unsigned,
)
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import leader
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.egress import EgressAction
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.patience import Patience
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import of_task, plain

from gpusmith.built import signing
from gpusmith.change import ledger as ledgers
from gpusmith.change.budget import Rules
from gpusmith.change.journal import Journal
from gpusmith.change.node_object import NodeObject
from gpusmith.change.outcome import Outcome, Result, Times
from gpusmith.change.protocol import Fenced
from gpusmith.change.steps import NodeChange
from gpusmith.cluster import claims, retries
from gpusmith.cluster.api import Cluster
from gpusmith.errors import GpusmithError, ToolError
from gpusmith.node.records import parse
from gpusmith.paths import repo_root
from gpusmith.upgrade.hosts import STAMPED
from gpusmith.upgrade.on_machine import Machine
from gpusmith.upgrade.proof import Validation

BUNDLED = ("gpusmith.gpu.driver_state", "gpusmith.gpu.built_modules")
"""Modules that take the probe's code along."""


class ActionModule(BuildingAction, EgressAction):
    """Carries out the plan for one node. Never fails for what becomes of it: the report tells it for all nodes."""

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Entry point of Ansible."""
        result: dict[str, Any] = ActionBase.run(self, tmp, task_vars)
        self.way_out(task_vars)
        asked = arguments(self)
        try:
            outcome = self._carry_out(asked, task_vars)
        except GpusmithError as error:
            outcome = Outcome(Result.UNFINISHED, str(error))
        changed = outcome.result not in (Result.UNTOUCHED, Result.RELEASED)
        return {**result, "changed": changed, **asdict(outcome)}

    def _carry_out(self, asked: Mapping[str, Any], task_vars: dict[str, Any] | None) -> Outcome:
        order = asked["order"]
        row, run, name = order["row"], order["run"], order["row"]["node"]
        cluster, folder, mine = Cluster(order["kubeconfig"], retries.AWAY), Path(order["folder"]), leader()
        journal = Journal(folder, name, Display().display)

        def fence() -> None:
            try:
                claims.must_hold(cluster, name, mine)
            except claims.Lost as error:
                raise Fenced(error.message, error.hint) from error

        node = NodeObject(
            cluster,
            name,
            Rules(
                run,
                row["target"],
                order["max_unavailable"],
                int(order["canary"]),
                float(order["soak"]),
                int(order["max_failures"]),
                rollback=bool(row.get("rollback")),
            ),
            order["queue"],
            {member: int(gpus) for member, gpus in order["members"].items()},
            STAMPED,
            folder,
            order["evict"] or {},
        )
        patience, reboot_s = Patience(fence), float(order["reboot_timeout"])
        try:
            modules = self._modules(asked["build"], task_vars or {}, patience) if asked["build"] else None
        except GpusmithError as error:
            return _not_begun(node, journal, error)
        machine = Machine(
            host=str((task_vars or {}).get("inventory_hostname")),
            node=name,
            run=run,
            ask=patience.with_call(partial(self._ask, task_vars)),
            look=patience.with_call(partial(self._record, asked["nvml_timeout"], task_vars)),
            cluster=cluster,
            packages={**asked["packages"], "repository": asked["packages"].get("repository") or None},
            wanted=of_task(task_vars or {}, self._templar),
            own=asked["own"],
            validation=Validation(
                str(repo_root() / "validation"),
                order["inventory"],
                folder / name,
                float(order["validation_timeout"]),
            ),
            reboot=(lambda: self._reboot(reboot_s, task_vars, patience))
            if order["reboot"] == "if_needed"
            else None,
            ready_s=asked["ready_timeout"],
            modules=modules,
        )
        upgrade = NodeChange(
            name=name,
            run=run,
            target=row["target"],
            origin=row["origin"],
            change=machine,
            cluster=node,
            fence=fence,
            say=journal.say,
            back=bool(row.get("back")),
            rollback=bool(row.get("rollback")),
            units=tuple(order["units"] or ()),
            evicts=bool(order["evict"]),
            gpus=int(row["gpus"]),
            model=row["model"],
            flavour=row.get("flavour") or "",
            times=Times(drain_s=float(order["drain_timeout"])),
        )
        try:
            outcome = upgrade.carry_out()
        finally:
            node.end()
        if outcome.result is Result.UNTOUCHED:
            node.leave_out()
        if outcome.result is Result.UPGRADED:
            try:
                machine.forget([row["target"], row["origin"]])
            except GpusmithError as error:
                journal.say("done", f"packages of older drivers could not be removed: {error}")
        journal.say(outcome.result, outcome.reason)
        return outcome

    def _modules(self, asked: Mapping[str, Any], variables: dict[str, Any], patience: Patience) -> Provider:
        """One node of several builds. Who waits for it still asks whether this run may act."""
        host, signer = str(variables["inventory_hostname"]), signing.load(**asked["signing"])
        refuse_unsigned(host, parse(plain(variables["node_record_now"]["record"])), signer)

        def sleep(seconds: float) -> None:
            patience.fence()
            time.sleep(seconds)

        return self.provider(asked, signer, variables, sleep, patience)

    # --- the way to the machine ----------------------------------------------------------------------------------

    def _ask(
        self, task_vars: dict[str, Any] | None, module: str, arguments: Mapping[str, Any]
    ) -> dict[str, Any]:
        answer: dict[str, Any]
        if module in BUNDLED:
            answer = self.run_bundled(module, dict(arguments), task_vars)
        else:
            answer = self._execute_module(
                module_name=module, module_args=dict(arguments), task_vars=task_vars
            )
        return answer

    def _record(self, nvml_timeout: float, task_vars: dict[str, Any] | None) -> dict[str, Any]:
        answer = self.look(nvml_timeout, task_vars)
        if answer.get("failed"):
            raise ToolError(str(answer.get("msg")))
        record: dict[str, Any] = answer["record"]
        return record

    def _reboot(self, timeout: float, task_vars: dict[str, Any] | None, patience: Patience) -> None:
        patience.fence()
        patience.seconds = max(patience.seconds, timeout)
        task = self._task.copy()
        task.args = {"msg": "The NVIDIA driver is upgraded", "reboot_timeout": int(timeout)}
        action = self._shared_loader_obj.action_loader.get(
            "ansible.builtin.reboot",
            task=task,
            connection=self._connection,
            play_context=self._play_context,
            loader=self._loader,
            templar=self._templar,
            shared_loader_obj=self._shared_loader_obj,
        )
        answer = action.run(task_vars=task_vars)
        if answer.get("failed"):
            raise ToolError(
                f"The reboot did not come to its end: {answer.get('msg')}", "Look at the machine's console."
            )


def _not_begun(node: NodeObject, journal: Journal, error: GpusmithError) -> Outcome:
    """Nobody could give the node its packages or modules, as without the key that signs them: it stays as it is, and nobody waits for it."""
    try:
        entry = ledgers.read(node.node())
        if entry is None or entry.finished:
            node.leave_out()
            outcome = Outcome(Result.UNTOUCHED, str(error))
        else:
            outcome = Outcome(Result.UNFINISHED, f"{error} (state '{entry.state}')")
    finally:
        node.end()
    journal.say(outcome.result, outcome.reason)
    return outcome
