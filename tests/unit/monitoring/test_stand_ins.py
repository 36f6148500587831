"""What scripts/bench-monitoring-scale measures with: the metrics of a large cluster."""

from __future__ import annotations

import re

import pytest
import yaml

from gpusmith.data.monitoring import counter_rows
from gpusmith.paths import repo_root
from tests.fleet import metrics

SERIES = re.compile(r'^([A-Za-z_]+)\{((?:[A-Za-z_]+="(?:[^"\\]|\\.)*",?)+)\} [0-9.]+$')
NODES = 104


def series(text: str) -> list[tuple[str, dict[str, str]]]:
    """Metric and labels of each line that is no comment."""
    found = [SERIES.match(line) for line in text.splitlines() if not line.startswith("#")]
    return [(row[1], dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', row[2]))) for row in found if row]


@pytest.mark.parametrize("kind", ["whole", "shared", "free", "broken"])
def test_an_exporter_tells_all_counters_of_each_gpu(kind: str) -> None:
    text = metrics.page(kind, 7).decode()
    found = series(text)
    assert len(found) == len([line for line in text.splitlines() if not line.startswith("#")])
    assert len({(name, *sorted(labels.items())) for name, labels in found}) == len(found)
    for gpu in range(8):
        told = {name for name, labels in found if labels["gpu"] == str(gpu)}
        assert told == {name for name, _, _ in counter_rows() if "RETIRED" not in name}
    assert {("pod" in labels) for _, labels in found} == {kind != "free"}
    assert metrics.page(kind, 8) != metrics.page(kind, 7), "values that do not change cost nothing to keep"


def test_kube_state_metrics_tells_what_the_role_lets_through() -> None:
    found = series(metrics.state_metrics(NODES, 3600, 0.0).decode())
    role = yaml.safe_load((repo_root() / "roles/gpu_monitoring/vars/main.yml").read_text())
    # Quotas are of namespaces, which are few.
    assert {name for name, _ in found} == set(role["__gpu_monitoring_state_metrics"]) - {"kube_resourcequota"}
    assert len({(name, *sorted(labels.items())) for name, labels in found}) == len(found)
    assert len({labels["node"] for _, labels in found if labels.get("node")}) == NODES
    held = {
        labels["pod"] for _, labels in found if labels.get("resource") == "nvidia_com_gpu" and "pod" in labels
    }
    told = {labels["pod"] for name, labels in series(_exporters()) if "pod" in labels}
    assert told < held, "pods that wait have no GPU"


def _exporters() -> str:
    return "".join(
        metrics.filled(metrics.page(metrics.kind_of(node), 1), node, NODES, 3600, 0.0).decode()
        for node in range(NODES)
    )


def test_each_exporter_has_an_address_of_its_own() -> None:
    assert len({metrics.address(node) for node in range(70_000)} | {metrics.STATE_METRICS}) == 70_001
