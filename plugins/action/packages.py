"""Action plugin of module packages: passes on the site's way out."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.egress import EgressAction


class ActionModule(EgressAction):
    """Runs the module of the same name."""

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Entry point of Ansible."""
        result: dict[str, Any] = ActionBase.run(self, tmp, task_vars)
        self.way_out(task_vars)
        result.update(self._execute_module(module_name=self._task.action, task_vars=task_vars))
        return result
