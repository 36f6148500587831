"""The metrics that rules and dashboards may read."""

from __future__ import annotations

import re

import yaml

from gpusmith.data.monitoring import counter_rows
from gpusmith.monitoring import rules
from gpusmith.paths import repo_root

OF_KUBE_STATE_METRICS = frozenset(
    yaml.safe_load((repo_root() / "roles/gpu_monitoring/vars/main.yml").read_text())[
        "__gpu_monitoring_state_metrics"
    ]
)
"""What the role has kube-state-metrics tell."""
METRIC = re.compile(r"\b(?:DCGM_|kube_|gpusmith:)\w+")


def known() -> set[str]:
    """Counters, records, and what kube-state-metrics tells."""
    records = {rule.record for rule in rules.load() if rule.record}
    return {name for name, _, _ in counter_rows()} | records | OF_KUBE_STATE_METRICS
