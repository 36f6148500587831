"""Action plugin: looks at a node until its driver is as wanted. The judge is on the controller, the looking on the node."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import time
from typing import Any

from ansible.plugins.action import ActionBase

from gpusmith.errors import GpusmithError
from gpusmith.expect import driver, wanted
from gpusmith.node.records import parse
from gpusmith.wait import Deadline

TICK_S = 1.0


class ActionModule(ActionBase):
    """Look, judge, wait."""

    TRANSFERS_FILES = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Entry point of Ansible."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, asked = self.validate_argument_spec(
            argument_spec={
                "settings": {"type": "dict", "required": True},
                "layout": {"type": "dict", "required": True},
                "timeout": {"type": "float", "required": True},
                "nvml_timeout": {"type": "float", "default": 30.0},
            }
        )
        settings = asked["settings"]
        want = wanted.driver(settings["node"], settings, layout=wanted.layout(asked["layout"]))
        begin = time.monotonic()
        deadline = Deadline(0.0 if self._task.check_mode else asked["timeout"])
        while True:
            seen = self._execute_module(
                module_name="gpusmith.gpu.node_state",
                module_args={"nvml_timeout": asked["nvml_timeout"]},
                task_vars=task_vars,
            )
            if seen.get("failed") or seen.get("unreachable"):
                return {**result, **seen}
            try:
                found = driver.problems(parse(seen["record"]), want)
            except GpusmithError as error:
                return {**result, "failed": True, "msg": f"{error.message} {error.hint}"}
            if not found or not driver.may_pass(found) or deadline.passed():
                break
            time.sleep(TICK_S)
        return {**result, **seen, "changed": False, "waited": round(time.monotonic() - begin, 1)}
