"""What role gpu_monitoring deploys for a site with many nodes; the targets are stand-ins, not the pods of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpusmith.monitoring import site_rules
from tests.fleet import metrics
from tests.fleet.site import GPU_NODES, name_of
from tests.unit.cluster.roles import of_role

INTERVAL_S = 30
OURS = {f"gpu_monitoring_{part}": "managed" for part in ("dcgm_exporter", "kube_state_metrics", "prometheus")}
META = "__meta_kubernetes_pod_"


@dataclass(frozen=True)
class Site:
    """What Prometheus gets.

    Attributes:
        nodes: how many there are.
        shipped: its configuration, as the role writes it.
        rules: files by name.
        limit_mib: of its memory.
    """

    nodes: int
    shipped: dict[str, Any]
    rules: dict[str, str]
    limit_mib: int

    def config(self, exporters: int, own: int, rules: Path) -> dict[str, Any]:
        """The configuration with targets on these ports; all that is done with targets and values stays."""
        targets = {
            "dcgm-exporter": [
                _pod(f"{metrics.address(node)}:{exporters}", "dcgm-exporter", name_of(node))
                for node in range(self.nodes)
            ],
            "kube-state-metrics": [
                _pod(f"{metrics.STATE_METRICS}:{exporters}", "kube-state-metrics", "cp-1")
            ],
            "prometheus": [{"targets": [f"127.0.0.1:{own}"]}],
        }
        jobs = [
            {key: value for key, value in job.items() if not key.endswith("_sd_configs")}
            | {"static_configs": targets[job["job_name"]]}
            for job in self.shipped["scrape_configs"]
        ]
        return {**self.shipped, "rule_files": [f"{rules}/*.yml"], "scrape_configs": jobs}


def _pod(target: str, name: str, node: str) -> dict[str, Any]:
    """A target as the discovery of a cluster would name it."""
    labels = {"label_app_kubernetes_io_name": name, "container_port_name": "metrics", "node_name": node}
    return {"targets": [target], "labels": {META + key: value for key, value in labels.items()}}


def site(nodes: int, lapse: int = 1) -> Site:
    """With so many nodes, where time goes so many times as fast. Ansible's loader has to know its lookups."""
    names = [name_of(node) for node in range(nodes)]
    given = {
        **OURS,
        "gpu_monitoring_interval_s": INTERVAL_S // lapse,
        "groups": {"all": names},
        "hostvars": dict.fromkeys(names, GPU_NODES),
        "ansible_play_hosts": names,
    }
    rules = site_rules.rule_files()

    def filled_in(name: str) -> Any:
        text = of_role(
            "gpu_monitoring",
            f"{{{{ lookup('ansible.builtin.template', '{name}') }}}}",
            given,
            {"__gpu_monitoring_rule_files": rules},
        )
        return list(yaml.safe_load_all(text))

    (config,) = filled_in("prometheus.conf.j2")
    (pod,) = (
        row["spec"]["template"]["spec"]
        for row in filled_in("prometheus.yml.j2")
        if row and row["kind"] == "Deployment"
    )
    return Site(nodes, config, rules, mib(pod["containers"][0]["resources"]["limits"]["memory"]))


def mib(size: str) -> int:
    """What Kubernetes writes as 512Mi or 2Gi."""
    return int(size[:-2]) * {"Mi": 1, "Gi": 1024}[size[-2:]]
