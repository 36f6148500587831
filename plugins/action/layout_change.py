"""Action plugin: one node's layout change, from the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpusmith.gpu.plugins.plugin_utils import bundled
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.arguments import arguments
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.changing import Order, result_of
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.partitioning import PartitioningAction
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.patience import Patience
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import Variables, plain

from gpusmith.change.outcome import Outcome
from gpusmith.cluster.stamps import LAYOUT
from gpusmith.errors import ToolError
from gpusmith.node.records import parse
from gpusmith.probe.stamp import stamp_facts
from gpusmith.relayout.change import LayoutChange, read


class ActionModule(PartitioningAction):
    """Carries out the plan for one node. Never fails for what becomes of it: the report tells it for all nodes."""

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Entry point of Ansible."""
        result: dict[str, Any] = ActionBase.run(self, tmp, task_vars)
        asked, variables = arguments(self), task_vars or {}
        return {**result, **result_of(lambda: self._carry_out(asked["order"], asked["record"], variables))}

    def _carry_out(
        self, given: Mapping[str, Any], record: Mapping[str, Any], variables: dict[str, Any]
    ) -> Outcome:
        # Nobody is evicted for a layout.
        order, host = Order(given, LAYOUT, {}), str(variables["inventory_hostname"])
        wanted = Variables(variables["hostvars"], self._loader).wanted(host)
        patience = Patience(order.fence)
        layout = LayoutChange(
            host=host,
            node=order.node,
            run=order.run,
            divide=patience.with_call(partial(self._divide, variables)),
            used=partial(self._used, patience.with_call(partial(self._look, variables))),
            by_mig=any(bool(read(order.row[end]).profile) for end in ("origin", "target")),
            wanted=wanted,
            validation=order.validation,
            facts=stamp_facts(parse(plain(record))),
        )
        outcome: Outcome = order.carry_out(layout)
        order.journal.say(outcome.result, outcome.reason)
        return outcome

    def _used(
        self, look: Callable[[Sequence[str]], Mapping[str, Any]], stopped: Sequence[str], of_pods: bool
    ) -> Sequence[str]:
        answer = look(stopped)
        if answer.get("failed"):
            raise ToolError(str(answer.get("msg")))
        return [str(words) for words in answer["users" if of_pods else "strangers"]]

    def _look(self, variables: dict[str, Any], stopped: Sequence[str]) -> dict[str, Any]:
        """Who has a GPU open."""
        asked = {"state": "used", "units": list(stopped), "bundle": bundled.PACKED}
        answer: dict[str, Any] = self._execute_module(
            module_name="gpusmith.gpu.driver_state", module_args=asked, task_vars=variables
        )
        return answer

    def _divide(self, variables: dict[str, Any], asked: Mapping[str, Any], check: bool) -> dict[str, Any]:
        """Have the machine's GPUs divided, or be told what is missing."""
        answer: dict[str, Any] = self.run_bundled(
            "gpusmith.gpu.gpu_partitions", {**asked, "look": check}, variables
        )
        return answer
