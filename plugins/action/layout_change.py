"""Action plugin: one node's layout change, from the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.changing import Order, result_of
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import ControllerAction
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import Variables, plain

from gpusmith.change.outcome import Outcome
from gpusmith.cluster.stamps import LAYOUT
from gpusmith.data.operands import FEATURE_DISCOVERY
from gpusmith.node.records import parse
from gpusmith.probe.stamp import stamp_facts
from gpusmith.relayout.change import LayoutChange


class ActionModule(ControllerAction):
    """Carries out the plan for one node. Never fails for what becomes of it: the report tells it for all nodes."""

    def act(self, asked: dict[str, Any], check: bool) -> dict[str, Any]:  # noqa: ARG002 - a plan is all of check mode
        result: dict[str, Any] = result_of(lambda: self._carry_out(asked["order"], asked["record"]))
        return result

    def _carry_out(self, given: Mapping[str, Any], record: Mapping[str, Any]) -> Outcome:
        # Nobody is evicted for a layout.
        order, host = Order(given, LAYOUT, {}), str(self.variables["inventory_hostname"])
        wanted = Variables(self.variables["hostvars"], self._loader).wanted(host)
        layout = LayoutChange(
            host,
            order.node,
            order.run,
            order.validation,
            stamp_facts(parse(plain(record))),
            wanted.validation.node_condition,
            FEATURE_DISCOVERY in wanted.operands.ours,
        )
        outcome: Outcome = order.carry_out(layout)
        order.journal.say(outcome.result, outcome.reason)
        return outcome
