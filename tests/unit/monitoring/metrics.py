"""The metrics that rules and dashboards may read."""

from __future__ import annotations

import re

from gpusmith.data.monitoring import counter_rows
from gpusmith.monitoring import rules

OF_KUBE_STATE_METRICS = frozenset(
    {
        "kube_node_annotations",
        "kube_node_labels",
        "kube_node_spec_taint",
        "kube_node_status_allocatable",
        "kube_node_status_capacity",
        "kube_pod_container_resource_requests",
        "kube_pod_status_phase",
        "kube_pod_status_unschedulable",
        "kube_resourcequota",
    }
)
"""What the role has kube-state-metrics tell."""
METRIC = re.compile(r"\b(?:DCGM_|kube_|gpusmith:)\w+")


def known() -> set[str]:
    """Counters, records, and what kube-state-metrics tells."""
    records = {rule.record for rule in rules.load() if rule.record}
    return {name for name, _, _ in counter_rows()} | records | OF_KUBE_STATE_METRICS
