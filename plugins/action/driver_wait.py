"""Action plugin: waits on the controller until a node's driver is as wanted."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import time
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.arguments import arguments
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.looking import LookingAction
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import of_task, plain

from gpusmith.errors import GpusmithError
from gpusmith.expect import driver, driver_needs
from gpusmith.node.records import parse
from gpusmith.wait import Deadline, Done, NotYet, WaitTimeout, wait_until
from gpusmith.wanted.node import NodeWanted


def still_missing(raw: dict[str, Any], wanted: NodeWanted, own: dict[str, Any]) -> str:
    """Why waiting may help; empty if nothing is wrong, or if waiting cannot help."""
    record = parse(raw)
    found = driver.problems(record, driver_needs.asked_for(record, wanted, own))
    return "; ".join(problem.cause for problem in found) if driver.may_pass(found) else ""


class ActionModule(LookingAction):
    """Looks until nothing is wrong, or waiting cannot help. Never fails for what it sees."""

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Entry point of Ansible."""
        result: dict[str, Any] = ActionBase.run(self, tmp, task_vars)
        asked = arguments(self)
        wanted, own = of_task(task_vars or {}, self._templar), plain(asked["own"])
        begin = time.monotonic()
        answer: dict[str, Any] = {}

        def look() -> Done[None] | NotYet:
            answer.clear()
            answer.update(self.look(asked["nvml_timeout"], task_vars))
            failed = answer.get("failed") or answer.get("unreachable")
            seen = "" if failed else still_missing(answer["record"], wanted, own)
            return NotYet(seen) if seen else Done(None)

        try:
            wait_until("the driver", look, Deadline(0.0 if self._task.check_mode else asked["timeout"]))
        except WaitTimeout:
            pass  # the caller judges the record that was read last
        except GpusmithError as error:
            answer.update(failed=True, msg=str(error))
        result.update(answer, waited=round(time.monotonic() - begin, 1))
        return result
