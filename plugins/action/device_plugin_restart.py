"""Action plugin: starts our device plugin anew on a node whose CDI specification of it is missing or wrong."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.arguments import arguments
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.looking import LookingAction
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import of_task

from gpusmith.cluster import device_plugin
from gpusmith.cluster.api import Cluster
from gpusmith.cluster.views import node_path
from gpusmith.errors import GpusmithError, ToolError
from gpusmith.expect import plans
from gpusmith.problems import Cure
from gpusmith.wait import Deadline, Done, NotYet, WaitTimeout, wait_until
from gpusmith.wanted import layouts

TICK_S = 2.0


class ActionModule(LookingAction):
    """Deletes the plugin's pod, and looks at the node until the file is as it has to be."""

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Entry point of Ansible."""
        result: dict[str, Any] = ActionBase.run(self, tmp, task_vars)
        asked = arguments(self)
        try:
            result.update(self._act(asked, task_vars or {}))
        except GpusmithError as error:
            result.update(failed=True, msg=str(error))
        return result

    def _act(self, asked: Mapping[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        host, record = str(task_vars["inventory_hostname"]), asked["record"]
        check = bool(self._task.check_mode)
        wanted = of_task(task_vars, self._templar)
        namespace = wanted.operands.namespace
        if Cure.PLUGIN not in plans.gpu_operands(record, wanted, {})["cures"]:
            return {"changed": False, "objects": []}
        deadline = Deadline(asked["timeout"])
        cluster, node = Cluster(asked["kubeconfig"]), str(record["kubernetes"]["node_name"] or host)
        if layouts.of_node(cluster.get(node_path(node)) or {"metadata": {}}).by_claims:
            # It still hands GPUs out by claims, and has no device plugin.
            return {"changed": False, "objects": []}
        gone = device_plugin.restart(
            cluster,
            namespace,
            node,
            float(record["host"]["time_unix"]),
            asked["timeout"],
            check,
        )

        def look() -> Done[None] | NotYet:
            answer = self.look(asked["nvml_timeout"], task_vars)
            if answer.get("failed") or answer.get("unreachable"):
                return NotYet(str(answer.get("msg") or "the node does not answer"))
            found = plans.gpu_operands(answer["record"], wanted, {})["problems"]
            return NotYet("; ".join(found)) if found else Done(None)

        if not check:
            try:
                wait_until(f"the device plugin's CDI specification on '{host}'", look, deadline, TICK_S)
            except WaitTimeout as error:
                raise ToolError(error.message, device_plugin.read_log(namespace)) from error
        return {"changed": bool(gone), "objects": gone}
