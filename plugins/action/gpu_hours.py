"""Action plugin: say how many GPU hours each namespace has held, and write them as a table."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import ControllerAction, write

from gpusmith.cluster.api import Cluster
from gpusmith.cluster.monitoring import prometheus_of, silence
from gpusmith.cluster.web import Silent
from gpusmith.errors import ToolError
from gpusmith.monitoring import hours
from gpusmith.verdict.changes import TELLS
from gpusmith.verdict.run import CLUSTER


class ActionModule(ControllerAction):
    """Asks Prometheus; in check mode the table is not written."""

    def act(self, asked: dict[str, Any], check: bool) -> dict[str, Any]:
        asks = prometheus_of(lambda: Cluster(asked["kubeconfig"]), asked, "GPU hours")
        try:
            found = hours.ask(asks.query, asked["days"], time.time())
        except Silent as error:
            raise silence(error, asked["namespace"]) from error
        if not found.measured:
            raise ToolError(
                f"Prometheus has no values of '{hours.BUSY}' in {24 * asked['days']} hours.",
                "They begin when site.yml has deployed the exporter and the rules: pytest validation --tier monitoring says what is missing.",
            )
        path, notes = Path(asked["dest"]), list(found.lines(asked["days"]))
        if not check:
            write(path, found.table())
            notes.append(f"Table: {path}")
        return {"changed": False, TELLS: {CLUSTER: {"notes": notes}}}
