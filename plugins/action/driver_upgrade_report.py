"""Action plugin: what became of the nodes of a driver upgrade."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.utils.display import Display
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import ControllerAction
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import Variables

from gpusmith.errors import GpusmithError
from gpusmith.upgrade import report


class ActionModule(ControllerAction):
    """One table, and upgrade.json."""

    def act(self, asked: dict[str, Any], check: bool) -> dict[str, Any]:  # noqa: ARG002 - it only reports
        of = Variables(self.variables.get("hostvars"))
        outcomes = {host: of.written(host).get(asked["outcomes"]) for host in asked["hosts"]}
        rows = report.rows(asked["hosts"], outcomes)
        path = report.write(Path(asked["folder"]), asked["run"], rows)
        display = Display()
        for line in (
            *report.table(rows),
            report.inventory_line(rows, {host: _asked(host, of) for host in asked["hosts"]}),
            f"Journals and reports: {path.parent}",
        ):
            if line:
                display.display(line)
        return {"changed": False, "left": report.left(rows, asked["way_back"]), "results_file": str(path)}


def _asked(host: str, of: Variables) -> str:
    """Its 'nvidia_driver_version'; empty where it cannot be told."""
    try:
        return str(of.filled(host, "nvidia_driver_version"))
    except (GpusmithError, KeyError):
        return ""
