"""Action plugin: hands the run and its variables to gpusmith.inventory.guard, on the controller, and refuses."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import ControllerAction
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import Variables, run_of

from gpusmith.inventory import guard, specs


class ActionModule(ControllerAction):
    """Refuse a run that cannot do what was meant."""

    def act(self, asked: dict[str, Any], check: bool) -> dict[str, Any]:  # noqa: ARG002 - changes nothing
        run = run_of(self.variables, self._loader, asked.pop("group"))
        found = guard.refusals(run, Variables(self.variables.get("hostvars")), specs.load(), **asked)
        refused = {"failed": True, "msg": "\n".join(map(str, found))} if found else {}
        return {"changed": False, "nodes": run.nodes, **refused}
