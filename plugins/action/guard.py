"""Action plugin: hands the run and its variables to gpusmith.inventory.guard, on the controller, and refuses."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import ControllerAction
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import Variables, run_of

from gpusmith import advice
from gpusmith.inventory import guard, specs
from gpusmith.inventory.templates import UnfilledError


class ActionModule(ControllerAction):
    """Refuse a run that cannot do what was meant."""

    def act(self, asked: dict[str, Any], check: bool) -> dict[str, Any]:  # noqa: ARG002 - changes nothing
        run = run_of(self.variables, self._loader, asked.pop("group"))
        hosts = Variables(self.variables.get("hostvars"))
        found = guard.refusals(run, hosts, specs.load(), **asked)
        refused = {"failed": True, "msg": "\n".join(map(str, found))} if found else {}
        started = {"inventory": run.sources[0] if len(run.sources) == 1 else "", "kubeconfig": ""}
        with suppress(UnfilledError, KeyError):
            started["kubeconfig"] = (
                str(hosts.filled(run.nodes[0], "gpusmith_kubeconfig")) if run.nodes else ""
            )
        return {"changed": False, "nodes": run.nodes, advice.TELLS: started, **refused}
