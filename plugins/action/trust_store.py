"""Action plugin of module trust_store: sends the probe's code, and certificates in the form that every program reads."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.bundled import BundledAction
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import plain

from gpusmith.errors import InputError
from gpusmith.inventory import authorities


class ActionModule(BundledAction):
    """All else is the module's work."""

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Entry point of Ansible."""
        try:
            texts = authorities.texts(plain(self._task.args.get("certificates")))
        except InputError as error:
            return {"failed": True, "msg": str(error)}
        self._task.args = {**self._task.args, "certificates": texts}
        result: dict[str, Any] = super().run(tmp, task_vars)
        return result
