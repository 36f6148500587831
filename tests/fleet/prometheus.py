"""Prometheus and Alertmanager of a healthy cluster, as the API server's proxy of services answers for them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpusmith.data.monitoring import WATCHDOG, counters, rules
from gpusmith.suite import monitoring

Json = dict[str, Any]
PROXY = "/api/v1/namespaces/gpusmith-monitoring/services/http:{}/proxy"
PROMETHEUS, ALERTMANAGER = PROXY.format("prometheus:9090"), PROXY.format("alertmanager:9093")
MANAGED = {
    f"gpu_monitoring_{part}": "managed"
    for part in ("dcgm_exporter", "kube_state_metrics", "prometheus", "alertmanager")
}
"""Variables of a site that is watched."""
CONFIG = "route: {receiver: people}\nreceivers: [{name: people, webhook_configs: [{url: <secret>}]}]\n"
EXPORTER, STATE_METRICS = {"job": "dcgm-exporter"}, {"job": "kube-state-metrics"}


@dataclass
class Gpu:
    """A GPU, as the metrics have it.

    Attributes:
        node: of it.
        uuid: of it.
        pod: that has it, 'namespace/pod'.
        counters: that it has values of.
    """

    node: str
    uuid: str
    pod: str = ""
    counters: set[str] = field(default_factory=lambda: set(counters()))

    @property
    def labels(self) -> Json:
        """Of its series."""
        namespace, _, pod = self.pod.partition("/")
        held = {"namespace": namespace, "pod": pod} if pod else {}
        return {"node": self.node, "UUID": self.uuid, "modelName": "NVIDIA H100 80GB HBM3", **held}


class FakePrometheus:
    """Both servers; tests change what they know.

    Args:
        gpus: UUIDs by Node.
    """

    def __init__(self, gpus: Mapping[str, Sequence[str]]) -> None:
        self.gpus = [Gpu(node, uuid) for node, uuids in gpus.items() for uuid in uuids]
        self.up: dict[str, int] = dict.fromkeys(gpus, 1)
        self.ages: dict[str, float] = dict.fromkeys(gpus, 12.0)
        self.state_metrics, self.reloaded, self.silent = 1, True, False
        self.rules: Json = {name: {"name": name, "health": "ok"} for name in sorted(rules())}
        self.alerts: list[Json] = [firing(WATCHDOG, "none")]
        self.alertmanagers = ["http://alertmanager:9093/api/v2/alerts"]
        self.arrived: list[Json] = [{"receivers": [{"name": "people"}]}]
        self.config: str | None = CONFIG
        self.asked: list[str] = []

    def answer(self, path: str, query: Mapping[str, str]) -> str | None:
        """The answer to a request of the API server; None where nothing answers."""
        self.asked.append(f"{path} {query.get('query', '')}".strip())
        if path.startswith(ALERTMANAGER):
            known: Json = {
                "/api/v2/alerts": self.arrived,
                "/api/v2/status": {"config": {"original": self.config}} if self.config else None,
            }
            found = known.get(path.removeprefix(ALERTMANAGER))
        else:
            found = (
                None
                if self.silent
                else {"status": "success", "data": self._data(path.removeprefix(PROMETHEUS), query)}
            )
        return None if found is None else json.dumps(found)

    def _data(self, path: str, query: Mapping[str, str]) -> Any:
        known: Json = {
            "/api/v1/status/runtimeinfo": {"reloadConfigSuccess": self.reloaded},
            "/api/v1/rules": {"groups": [{"rules": list(self.rules.values())}]},
            "/api/v1/alerts": {"alerts": self.alerts},
            "/api/v1/alertmanagers": {"activeAlertmanagers": [{"url": url} for url in self.alertmanagers]},
        }
        return (
            {"resultType": "vector", "result": self._series(query["query"])}
            if path == "/api/v1/query"
            else known[path]
        )

    def _series(self, query: str) -> list[Json]:
        if query == monitoring.UP:
            found = [_row({**EXPORTER, "node": node}, value) for node, value in self.up.items()]
            return [*found, _row(STATE_METRICS, self.state_metrics)]
        if query == monitoring.AGES:
            return [_row({**EXPORTER, "node": node}, value) for node, value in self.ages.items()]
        if query == monitoring.gpus():
            return [_row(gpu.labels, len(gpu.counters)) for gpu in self.gpus]
        if query == monitoring.models():
            names = [name for gpu in self.gpus for name in gpu.counters]
            model = Gpu("", "").labels["modelName"]
            return [_row({"__name__": name, "modelName": model}, names.count(name)) for name in set(names)]
        asked = [gpu for gpu in self.gpus if gpu.uuid in query]
        assert query == monitoring.lacking(gpu.uuid for gpu in asked), query
        return [_row({"__name__": name, "UUID": gpu.uuid}, 1) for gpu in asked for name in gpu.counters]


def _row(labels: Mapping[str, str], value: float) -> Json:
    return {"metric": dict(labels), "value": [1.0, str(value)]}


def firing(name: str, severity: str, state: str = "firing", **labels: str) -> Json:
    """An alert, as Prometheus lists it."""
    notes = {"summary": "GPU 1 reported Xid 79", "runbook_url": "https://runbooks.example/alerts"}
    return {
        "labels": {"alertname": name, "severity": severity, **labels},
        "annotations": notes,
        "state": state,
    }
