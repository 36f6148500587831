"""Action plugin: hands the run and its variables to gpusmith.inventory.guard, on the controller, and refuses."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import Variables, run_of

from gpusmith.inventory import guard, specs
from gpusmith.inventory.target import GPU_GROUP


class ActionModule(ActionBase):
    """Refuse a run that cannot do what was meant."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Entry point of Ansible."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, arguments = self.validate_argument_spec(
            argument_spec={
                "group": {"type": "str", "default": GPU_GROUP},
                "cluster": {"type": "bool", "default": True},
                "needs_limit": {"type": "str", "default": ""},
                "tags": {"type": "list", "elements": "str", "default": []},
                "join_tag": {"type": "str", "default": ""},
                "cluster_tag": {"type": "str", "default": ""},
                "inventory_only": {"type": "list", "elements": "str", "default": []},
                "required": {"type": "list", "elements": "str", "default": []},
            }
        )
        variables = task_vars or {}
        run = run_of(variables, self._loader, arguments["group"])
        refusals = guard.refusals(
            run,
            Variables(variables.get("hostvars")),
            specs.load(),
            cluster=arguments["cluster"],
            needs_limit=arguments["needs_limit"],
            tags=arguments["tags"],
            join_tag=arguments["join_tag"],
            cluster_tag=arguments["cluster_tag"],
            inventory_only=arguments["inventory_only"],
            required=arguments["required"],
        )
        result.update(changed=False, nodes=run.nodes)
        if refusals:
            result.update(failed=True, msg="\n".join(map(str, refusals)))
        return result
