"""Action plugin: run the validation suite as a user would, with its output in a log."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import ControllerAction

from gpusmith.suite import start


class ActionModule(ControllerAction):
    """Starts pytest and waits for its end."""

    def act(self, asked: dict[str, Any], check: bool) -> dict[str, Any]:
        if check:
            return {"skipped": True, "msg": "The suite runs pods: it is not run in check mode."}
        done = start.run(
            asked["suite"],
            asked["inventory"],
            asked["limit"],
            asked["report_dir"],
            asked["log"],
            asked["timeout"],
        )
        found = {"started": done.started, "results_file": done.results_file, "status": done.status}
        return {"changed": False, **found, **({"failed": True, "msg": done.trouble} if done.trouble else {})}
