"""Action plugin: one node's driver upgrade, from the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.arguments import arguments
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.built_node import (
    BuildingAction,
    Provider,
    refuse_unsigned,
)
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.changing import Order, result_of
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.egress import EgressAction
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.patience import Patience
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import of_task, plain

from gpusmith.built import signing
from gpusmith.change import ledger as ledgers
from gpusmith.change.journal import Journal
from gpusmith.change.node_object import NodeObject
from gpusmith.change.outcome import Outcome, Result
from gpusmith.errors import GpusmithError, ToolError
from gpusmith.node.records import parse
from gpusmith.upgrade.hosts import STAMPED
from gpusmith.upgrade.on_machine import Machine

BUNDLED = ("gpusmith.gpu.driver_state", "gpusmith.gpu.built_modules")
"""Modules that take the probe's code along."""


class ActionModule(BuildingAction, EgressAction):
    """Carries out the plan for one node. Never fails for what becomes of it: the report tells it for all nodes."""

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Entry point of Ansible."""
        result: dict[str, Any] = ActionBase.run(self, tmp, task_vars)
        self.way_out(task_vars)
        asked = arguments(self)
        return {**result, **result_of(lambda: self._carry_out(asked, task_vars))}

    def _carry_out(self, asked: Mapping[str, Any], task_vars: dict[str, Any] | None) -> Outcome:
        given = asked["order"]
        order = Order(given, STAMPED, given["evict"] or {})
        row, journal = order.row, order.journal
        patience, reboot_s = Patience(order.fence), float(given["reboot_timeout"])
        try:
            modules = self._modules(asked["build"], task_vars or {}, patience) if asked["build"] else None
        except GpusmithError as error:
            return _not_begun(order.node, journal, error)
        machine = Machine(
            host=str((task_vars or {}).get("inventory_hostname")),
            node=order.name,
            run=order.run,
            ask=patience.with_call(partial(self._ask, task_vars)),
            look=patience.with_call(partial(self._record, asked["nvml_timeout"], task_vars)),
            cluster=order.cluster,
            packages={**asked["packages"], "repository": asked["packages"].get("repository") or None},
            wanted=of_task(task_vars or {}, self._templar),
            own=asked["own"],
            validation=order.validation,
            reboot=(lambda: self._reboot(reboot_s, task_vars, patience))
            if given["reboot"] == "if_needed"
            else None,
            ready_s=asked["ready_timeout"],
            modules=modules,
        )
        outcome: Outcome = order.carry_out(
            machine,
            rollback=bool(row.get("rollback")),
            units=tuple(given["units"] or ()),
            evicts=bool(order.evict),
            flavour=row.get("flavour") or "",
        )
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
