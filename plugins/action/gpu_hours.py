"""Action plugin: say how many GPU hours each namespace has held, and write them as a table."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import ControllerAction

from gpusmith.cluster.api import Cluster
from gpusmith.cluster.monitoring import refuse_silent
from gpusmith.cluster.web import PROMETHEUS, Addressed, Prometheus, Proxied, Silent, Web
from gpusmith.errors import InputError, ToolError, all_of
from gpusmith.monitoring import hours
from gpusmith.verdict.changes import TELLS
from gpusmith.verdict.run import CLUSTER


class ActionModule(ControllerAction):
    """Asks Prometheus; in check mode the table is not written."""

    def act(self, asked: dict[str, Any], check: bool) -> dict[str, Any]:
        managed, url = asked["prometheus"] == "managed", asked["prometheus_url"]
        if not managed and not url:
            raise InputError(
                "There is no Prometheus to ask for GPU hours.",
                "Set 'gpu_monitoring_prometheus: managed' and run site.yml, or 'existing' with 'gpu_monitoring_prometheus_url'.",
            )
        if not managed and (silent := refuse_silent(url)):
            raise all_of(silent)
        web: Web = Addressed(url)
        if managed:
            web = Proxied(Cluster(asked["kubeconfig"]), asked["namespace"], PROMETHEUS)
        try:
            found = hours.ask(Prometheus(web).query, asked["days"], time.time())
        except Silent as error:
            raise ToolError(
                f"Prometheus does not answer: {error.message.rstrip('.')}.",
                f"Look at it: kubectl -n {asked['namespace']} get pods -o wide",
            ) from error
        if not found.measured:
            raise ToolError(
                f"Prometheus has no values of '{hours.BUSY}' in {24 * asked['days']} hours.",
                "They begin when site.yml has deployed the exporter and the rules: pytest validation --tier monitoring says what is missing.",
            )
        path, notes = Path(asked["dest"]), list(found.lines(asked["days"]))
        if not check:
            _write(path, found.table())
            notes.append(f"Table: {path}")
        return {"changed": False, TELLS: {CLUSTER: {"notes": notes}}}


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ToolError(
            f"Table '{path}' cannot be written: {error.strerror}.",
            "Name another folder with 'gpusmith_report_dir'.",
        ) from error
