"""Action plugin: adds lines about the host to the verdict at the end of the run."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.arguments import arguments

from gpusmith.expect import forecast
from gpusmith.verdict.changes import TELLS


class ActionModule(ActionBase):
    """Returns the lines in its result; callback `verdict` prints them."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Entry point of Ansible."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        asked = arguments(self, required_together=[("role", "plan")])
        said = {
            "changes": {kind: items for kind, items in asked["changes"].items() if items},
            "unpredictable": asked["unpredictable"],
            "notes": asked["notes"],
        }
        if asked["role"]:
            found = forecast.of_role(asked["role"], asked["plan"])
            said["changes"] = {**found["changes"], **said["changes"]}
            said["unpredictable"] = [*found["unpredictable"], *said["unpredictable"]]
        result.update(changed=False)
        result[TELLS] = {str((task_vars or {})["inventory_hostname"]): said}
        return result
