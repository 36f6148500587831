"""One look at a node, for action plugins that need its record."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.bundled import BundledAction
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import OfHost

from gpusmith.data.systems import os_facts
from gpusmith.errors import ToolError
from gpusmith.inventory.templates import UnfilledError
from gpusmith.node.left_out import VARIABLE, without
from gpusmith.node.records import parse
from gpusmith.probe.stamp import stamp_facts


class LookingAction(BundledAction):
    """Runs the probe on the node."""

    def look(self, nvml_timeout: float, task_vars: dict[str, Any] | None) -> dict[str, Any]:
        """A result with the node's record and what its stamp depends on; or what went wrong."""
        answer: dict[str, Any] = self.run_bundled(
            "gpusmith.gpu.probe", {"nvml_timeout": nvml_timeout}, task_vars
        )
        if answer.get("failed") or answer.get("unreachable"):
            return answer
        answer.pop("invocation", None)
        host = OfHost(task_vars or {}, self._templar)
        try:
            written = host.written(VARIABLE)
            ignored = host.filled(written) if written else []
        except UnfilledError as error:
            answer.update(failed=True, msg=f"The template of '{VARIABLE}' cannot be filled in: {error}.")
            return answer
        answer["record"] = without(answer["record"], ignored)
        # In addition to facts that Ansible found, such as the node's Python.
        answer["ansible_facts"] = {
            **answer.get("ansible_facts", {}),
            **os_facts(answer["record"].get("host") or {}),
        }
        try:
            answer["stamp"] = stamp_facts(parse(answer["record"]))
        except ToolError as error:
            answer.update(failed=True, msg=str(error))
        return answer
