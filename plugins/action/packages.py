"""Action plugin of module packages: brings the folder that packages come from, where a repository is one."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.base import PackageError
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import plain
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.folders import FolderAction, is_folder


class ActionModule(FolderAction):
    """Runs the module of the same name."""

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Entry point of Ansible."""
        result: dict[str, Any] = ActionBase.run(self, tmp, task_vars)
        self.way_out(task_vars)
        asked = dict(self._task.args)
        if is_folder(asked.get("repository")):
            try:
                asked["repository"] = self.bring(
                    plain(asked["repository"]), str(asked.get("name")), task_vars
                )
            except PackageError as error:
                return {**result, "failed": True, "msg": str(error)}
        result.update(
            self._execute_module(module_name=self._task.action, module_args=asked, task_vars=task_vars)
        )
        return result
