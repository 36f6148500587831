"""Action plugin: waits on the controller until a node's driver is as wanted."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import time
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpusmith.gpu.plugins.module_utils import driver
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.looking import LookingAction

from gpusmith.wait import Deadline, Done, NotYet, WaitTimeout, wait_until


def still_missing(record: dict[str, Any], asked: dict[str, Any]) -> str:
    """Why waiting may help; empty if nothing differs, or if waiting cannot help.

    Raises:
        ValueError: the settings cannot be met.
    """
    wanted = driver.want(record, asked["settings"], asked["layout"], asked["models"])
    found = driver.differences(record, wanted, str(asked["settings"].get("unit", "")))
    return "; ".join(difference.text for difference in found) if driver.may_pass(found) else ""


class ActionModule(LookingAction):
    """Looks until nothing differs, or waiting cannot help. Never fails for what it sees."""

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Entry point of Ansible."""
        result: dict[str, Any] = ActionBase.run(self, tmp, task_vars)
        _validation, asked = self.validate_argument_spec(
            argument_spec={
                "settings": {"type": "dict", "required": True},
                "layout": {"type": "dict", "required": True},
                "models": {"type": "dict", "required": True},
                "timeout": {"type": "float", "required": True},
                "nvml_timeout": {"type": "float", "default": 30.0},
            }
        )
        begin = time.monotonic()
        answer: dict[str, Any] = {}

        def look() -> Done[None] | NotYet:
            answer.clear()
            answer.update(self.look(asked["nvml_timeout"], task_vars))
            seen = "" if answer.get("failed") else still_missing(answer["record"], asked)
            return NotYet(seen) if seen else Done(None)

        try:
            wait_until("the driver", look, Deadline(0.0 if self._task.check_mode else asked["timeout"]))
        except WaitTimeout:
            pass  # the caller judges the record that was read last
        except ValueError as error:
            answer.update(failed=True, msg=str(error))
        result.update(answer, waited=round(time.monotonic() - begin, 1))
        return result
