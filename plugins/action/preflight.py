"""Action plugin of module preflight: asks the machine, then judges on the controller, where the data files are."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import dataclasses
import time
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.bundled import BundledAction

from gpusmith.data import compatibility, models
from gpusmith.preflight.judge import judge
from gpusmith.preflight.words import Tables


class ActionModule(BundledAction):
    """Runs the module of the same name and adds `refusals` to its answer."""

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Gather and judge; a host that cannot be reached is reported by Ansible itself."""
        result: dict[str, Any] = ActionBase.run(self, tmp, task_vars)
        arguments = dict(self._task.args, controller_time=time.time())
        result.update(self.run_bundled("gpusmith.gpu.preflight", arguments, task_vars))
        if result.get("failed") or result.get("unreachable"):
            return result
        tables = Tables(models.load(), compatibility.load())
        found = judge(result, self._task.args["wanted"], tables)
        result["refusals"] = [dataclasses.asdict(refusal) for refusal in found]
        return result
