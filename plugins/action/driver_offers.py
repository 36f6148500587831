"""Action plugin of module driver_offers: knows the names to ask for, and makes versions of the answer."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import dataclasses
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.egress import EgressAction
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import of_task, plain

from gpusmith.data import systems
from gpusmith.errors import Refusal
from gpusmith.expect import offers
from gpusmith.expect.choice import Offer
from gpusmith.expect.layouts import Unmet
from gpusmith.node.records import parse

LAYOUTS = "__nvidia_driver_layouts"


class ActionModule(EgressAction):
    """Runs the module of the same name and adds `offer` to its answer."""

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask and judge; a host that cannot be reached is reported by Ansible itself."""
        result: dict[str, Any] = ActionBase.run(self, tmp, task_vars)
        self.way_out(task_vars)
        given = plain(dict(self._task.args))
        record, wanted = parse(given["record"]), of_task(task_vars or {}, self._templar)
        asked = wanted.driver.version
        try:
            known = systems.of_role("nvidia_driver", (task_vars or {}).get("ansible_facts") or {}, LAYOUTS)
            branches = offers.names(record, wanted, {"layouts": known})
        except systems.UnknownSystem as error:
            return {**result, **_answer(Offer(asked, refusal=Refusal(f"driver version: {error}")))}
        except Unmet as error:
            return {
                **result,
                **_answer(Offer(asked, refusal=Refusal(f"driver version: {error.message}", error.hint))),
            }
        names = sorted({name for _want, packages in branches.values() for name in packages})
        # The module's own spec asks for a record, and needs nothing of it.
        result.update(
            self._execute_module(
                module_name="gpusmith.gpu.driver_offers",
                module_args={**given, "record": {}, "packages": names},
                task_vars=task_vars,
            )
        )
        if result.get("failed") or result.get("unreachable"):
            return result
        if result["error"]:
            return {**result, **_answer(Offer(asked, refusal=_no_answer(result["error"])))}
        return {**result, **_answer(offers.offer(record, asked, branches, result["offered"]))}


def _no_answer(why: str) -> Refusal:
    return Refusal(
        f"repository: {why}; allowed: an answer from 'nvidia_driver_repository'.",
        "Correct 'nvidia_driver_repository', or bring it up.",
    )


def _answer(offer: Offer) -> dict[str, Any]:
    return {"changed": False, "offer": dataclasses.asdict(offer)}
