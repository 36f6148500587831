"""What action plugins share whose modules use the probe's code on the node."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import base64
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpusmith.gpu.plugins.plugin_utils import filters

from gpusmith.node.bundle import bundle

filters.load()
# Made when ansible-playbook loads the plugin, before it forks a worker for each host.
PACKED = base64.b64encode(bundle()).decode()


class BundledAction(ActionBase):
    """Runs the module of the action's name, and gives it the probe's code.

    Attributes:
        packed: what it gives, in base64.
    """

    TRANSFERS_FILES = False
    packed = PACKED

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Entry point of Ansible."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        result.update(self.run_bundled(self._task.action, dict(self._task.args), task_vars))
        return result

    def run_bundled(
        self, module: str, arguments: dict[str, Any], task_vars: dict[str, Any] | None
    ) -> dict[str, Any]:
        """A module's answer; a host that cannot be reached is reported by Ansible itself."""
        answer: dict[str, Any] = self._execute_module(
            module_name=module, module_args={**arguments, "bundle": self.packed}, task_vars=task_vars
        )
        return answer
