"""A real Prometheus Operator, beside a real API server, reads what role gpu_monitoring makes for it.

Its Prometheus, a managed one, and one with the scrape job of docs/monitoring.md get the same series of the same exporter; so does
its Prometheus with a ServiceMonitor as the GPU Operator makes it of the values there.
Needs root, and no lab. There is no kubelet: pods are objects with an address of this machine, where a program answers.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from gpulab.artifacts import golang
from gpulab.artifacts.components import component

from gpusmith.data import monitoring
from gpusmith.paths import repo_root
from tests.long import real_control_plane
from tests.long.real_control_plane import Cluster

cluster = real_control_plane.cluster

ROLE = "gpusmith.gpu.gpu_monitoring"
SITE, EXPORTERS, OURS = "site", "gpusmith-system", "gpusmith-monitoring"
GROUP = "monitoring.coreos.com/v1"
SELECTED = {"release": "kube-prometheus-stack"}
EXISTING = {
    "gpu_monitoring_dcgm_exporter": "managed",
    "gpu_monitoring_prometheus": "existing",
    "gpu_monitoring_operator_labels": SELECTED,
    "gpu_monitoring_interval_s": 5,
}
# As kube-prometheus-stack makes it: objects of every namespace, by the label of its release.
PROMETHEUS: dict[str, Any] = {
    "apiVersion": "monitoring.coreos.com/v1",
    "kind": "Prometheus",
    "metadata": {"name": "p", "namespace": SITE},
    "spec": {
        "serviceAccountName": SITE,
        "podMonitorSelector": {"matchLabels": SELECTED},
        "podMonitorNamespaceSelector": {},
        "ruleSelector": {"matchLabels": SELECTED},
        "ruleNamespaceSelector": {},
    },
}
METRIC = "DCGM_FI_DEV_GPU_TEMP"
SERIES = {
    "__name__": METRIC,
    "gpu": "0",
    "UUID": "GPU-1",
    "modelName": "NVIDIA H100",
    "container": "train",
    "namespace": "team-a",
    "pod": "train-0",
    "job": "dcgm-exporter",
    "node": "gpu-1",
    "instance": "gpu-1",
}
FREE = {key: value for key, value in SERIES.items() if key not in ("container", "namespace", "pod")} | {
    "gpu": "1",
    "UUID": "GPU-2",
}
"""Of a GPU that no pod holds."""
NOT_KEPT = {"Hostname": "dcgm-exporter-x", "DCGM_FI_DRIVER_VERSION": "580.1"}
SAID = "".join(
    f"{METRIC}{{{','.join(f'{key}={json.dumps(text)}' for key, text in of.items())}}} 40\n"
    for of in (
        {key: text for key, text in row.items() if key not in ("__name__", "job", "node", "instance")}
        | NOT_KEPT
        for row in (SERIES, FREE)
    )
)
ADDRESS = "10.200.0.1"
"""Of all pods: an address of the loopback is refused for an endpoint."""
EXPORTER = f"""
import http.server
class Exporter(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write({SAID!r}.encode())
http.server.ThreadingHTTPServer(("", 9400), Exporter).serve_forever()
"""
ASK = """
import json, sys
from gpusmith.cluster.web import Addressed, Prometheus
print(json.dumps(Prometheus(Addressed(sys.argv[1])).get(sys.argv[2], **dict(each.split("=", 1) for each in sys.argv[3:]))))
"""


def definitions() -> Path:
    """The folder of the operator's CustomResourceDefinitions, in the module of which its program is compiled."""
    part = component("prometheus-operator")
    command = [golang.find_go(), "mod", "download", "-json", part.upstream]
    done = subprocess.run(
        command, cwd=part.folder, env={**os.environ, "GOWORK": "off"}, capture_output=True, check=True
    )
    return Path(json.loads(done.stdout)["Dir"]) / "example/prometheus-operator-crd"


def make(cluster: Cluster, *objects: Mapping[str, Any]) -> None:
    """Have these objects, none of which has a field that the API server does not know."""
    path = cluster.folder / "objects.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    cluster.run("kubectl", "apply", "--validate=strict", "-f", str(path))


def held(cluster: Cluster, space: str, kind: str, name: str) -> Any:
    """An object."""
    return json.loads(cluster.run("kubectl", "-n", space, "get", kind, name, "-o", "json"))


def role(cluster: Cluster, given: Mapping[str, Any], refused: bool = False) -> str:
    """What a play says that has the role refuse and apply; there are no pods to wait for."""
    host = {"gpusmith_kubeconfig": "/etc/kubernetes/admin.conf", "ansible_connection": "local", **given}
    tasks = [
        {"name": name, "ansible.builtin.import_role": {"name": ROLE, "tasks_from": name}}
        for name in ("validate", "install")
    ]
    play = [{"hosts": "gpu_nodes", "gather_facts": False, "tasks": tasks}]
    for name, content in (("hosts", {"gpu_nodes": {"hosts": {"gpu-1": host}}}), ("play", play)):
        (cluster.folder / f"{name}.json").write_text(json.dumps(content))
    program = str(Path(sys.executable).parent / "ansible-playbook")
    words = (program, "-i", str(cluster.folder / "hosts.json"), str(cluster.folder / "play.json"))
    return cluster.run(*words, check=not refused)


def runs(cluster: Cluster, space: str, name: str, node: str) -> None:
    """A pod as the exporter's DaemonSet would make it, and as a kubelet would say that it runs."""
    template = held(cluster, EXPORTERS, "daemonset", "dcgm-exporter")["spec"]["template"]
    (container,) = template["spec"]["containers"]
    spec = {"nodeName": node, "containers": [{key: container[key] for key in ("name", "image", "ports")}]}
    metadata = {"name": name, "namespace": space, "labels": template["metadata"]["labels"]}
    make(
        cluster,
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": space}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec},
    )
    ready = [{"type": "Ready", "status": "True"}]
    address = {"podIP": ADDRESS, "podIPs": [{"ip": ADDRESS}]}
    status = json.dumps({"status": {"phase": "Running", "conditions": ready, **address}})
    cluster.run(
        "kubectl", "-n", space, "patch", "pod", name, "--subresource=status", "--type=merge", "-p", status
    )


def by_operator(cluster: Cluster, kind: str) -> str:
    """The configuration that the operator makes for a Prometheus that selects monitors of this kind."""
    # As kube-prometheus-stack does: objects of every namespace, by the label of its release.
    chosen = {
        f"{what}{part}": value
        for what in (kind, "rule")
        for part, value in (("Selector", {"matchLabels": SELECTED}), ("NamespaceSelector", {}))
    }
    name = kind.lower()
    metadata = {"name": name, "namespace": SITE}
    make(
        cluster,
        {
            "apiVersion": GROUP,
            "kind": "Prometheus",
            "metadata": metadata,
            "spec": {"serviceAccountName": SITE, **chosen},
        },
    )
    look = ["kubectl", "-n", SITE, "get", "-o", "yaml"]
    cluster.wait(
        "the rules arrive", *look, "configmap", f"prometheus-{name}-rulefiles-0", says="GpusmithWatchdog"
    )
    cluster.wait("there is a configuration", *look, "secret", f"prometheus-{name}", says="prometheus.yaml.gz")
    text = held(cluster, SITE, "secret", f"prometheus-{name}")["data"]["prometheus.yaml.gz"]
    # What the pod's reloader fills in.
    return gzip.decompress(b64decode(text)).decode().replace("$(SHARD)", "0")


def serves(cluster: Cluster, space: str, name: str, port: Mapping[str, Any]) -> None:
    """A Service with a pod on node gpu-1."""
    runs(cluster, space, f"{name}-x", "gpu-1")
    pod = {"kind": "Pod", "name": f"{name}-x", "namespace": space}
    metadata = {"name": name, "namespace": space, "labels": {"app": name}}
    subset = {"addresses": [{"ip": ADDRESS, "nodeName": "gpu-1", "targetRef": pod}], "ports": [port]}
    spec = {"ports": [port], "selector": {"app": name}}
    make(
        cluster,
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec},
        {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": [subset]},
    )


def by_gpu_operator(cluster: Cluster) -> None:
    """What the GPU Operator makes of the values in docs/monitoring.md."""
    given = yaml.safe_load(documented("dcgmExporter:"))["dcgmExporter"]["serviceMonitor"]
    name, space = "nvidia-dcgm-exporter", "gpu-operator"
    kept = {key: given[key] for key in ("honorLabels", "relabelings")}
    monitor = {
        "namespaceSelector": {"matchNames": [space]},
        "selector": {"matchLabels": {"app": name}},
        "endpoints": [{"port": "gpu-metrics", "path": "/metrics", "interval": "5s", **kept}],
    }
    metadata = {"name": name, "namespace": space, "labels": given["additionalLabels"]}
    serves(cluster, space, name, {"name": "gpu-metrics", "port": 9400})
    make(cluster, {"apiVersion": GROUP, "kind": "ServiceMonitor", "metadata": metadata, "spec": monitor})


def documented(begin: str) -> str:
    """The block of YAML in docs/monitoring.md that begins so."""
    text = (repo_root() / "docs/monitoring.md").read_text()
    (found,) = re.findall(rf"^```yaml\n({begin}\n.*?)^```", text, re.MULTILINE | re.DOTALL)
    return str(found)


def by_docs() -> str:
    """The scrape job of docs/monitoring.md for a Prometheus without an operator."""
    jobs = yaml.safe_load(documented("- job_name: dcgm-exporter"))
    return yaml.safe_dump({"global": {"scrape_interval": "5s"}, "scrape_configs": jobs})


def ask(cluster: Cluster, port: int, *words: str) -> Any:
    """What a Prometheus answers."""
    return json.loads(cluster.run(sys.executable, "-c", ASK, f"http://127.0.0.1:{port}", *words))


def series(cluster: Cluster, port: int, text: str, rules: Mapping[str, str]) -> list[dict[str, str]]:
    """What a Prometheus with this configuration gets, which reads the cluster as if it ran in a pod."""
    folder = cluster.folder / str(port)
    folder.mkdir()
    for name, content in rules.items():
        (folder / name).write_text(content)
    (folder / "prometheus.conf").write_text(re.sub(r"/etc/prometheus\S*/\*", f"{folder}/*", text))
    cluster.run("promtool", "check", "config", str(folder / "prometheus.conf"))
    cluster.start(
        *("env", "KUBERNETES_SERVICE_HOST=127.0.0.1", "KUBERNETES_SERVICE_PORT=6443", "prometheus"),
        *(f"--config.file={folder}/prometheus.conf", f"--storage.tsdb.path={folder}/data"),
        f"--web.listen-address=127.0.0.1:{port}",
    )
    query = (sys.executable, "-c", ASK, f"http://127.0.0.1:{port}", "query", f"query={METRIC}")
    cluster.wait("values arrive", *query, says="GPU-1")
    # A tenant's pod with the label would be another one.
    targets = ask(cluster, port, "targets", "state=active")["activeTargets"]
    assert [row["labels"]["node"] for row in targets if row["labels"]["job"] == SERIES["job"]] == ["gpu-1"]
    found = [row["metric"] for row in ask(cluster, port, "query", f"query={METRIC}")["result"]]
    return sorted(found, key=lambda labels: str(labels["UUID"]))


def prepared(cluster: Cluster) -> None:
    """A cluster with the operator, and the rights of its Prometheus, which the chart gives it."""
    cluster.run("kubectl", "apply", "--server-side", "-f", str(definitions()))
    cluster.run("kubectl", "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
    for space in (SITE, EXPORTERS, "tenant", "gpu-operator"):
        cluster.run("kubectl", "create", "namespace", space)
    cluster.run("kubectl", "-n", SITE, "create", "serviceaccount", SITE)
    cluster.run(
        "kubectl",
        "create",
        "clusterrole",
        SITE,
        "--verb=get,list,watch",
        "--resource=pods,services,endpoints",
    )
    cluster.run(
        "kubectl",
        "create",
        "clusterrolebinding",
        SITE,
        f"--clusterrole={SITE}",
        f"--serviceaccount={SITE}:{SITE}",
    )
    secrets = "/run/secrets/kubernetes.io/serviceaccount"
    authority = cluster.place("/etc/kubernetes/pki/ca.crt").read_text()
    token = cluster.run("kubectl", "-n", SITE, "create", "token", SITE)
    cluster.put({f"{secrets}/token": token, f"{secrets}/ca.crt": authority})
    cluster.run("ip", "address", "add", f"{ADDRESS}/32", "dev", "lo")
    cluster.start(sys.executable, "-c", EXPORTER)
    cluster.start("operator", "--web.listen-address=127.0.0.1:8080")


def test_its_prometheus_gets_what_a_managed_one_gets(cluster: Cluster) -> None:
    programs = real_control_plane.programs("prometheus-operator", "prometheus", "alertmanager")
    cluster = replace(cluster, path=f"{programs}:{cluster.path}")
    prepared(cluster)
    # The real definitions take all that the role makes, and a second run has nothing to do.
    for changed in (1, 0):
        assert f"changed={changed} " in (output := role(cluster, EXISTING)), output
    runs(cluster, EXPORTERS, "dcgm-exporter-x", "gpu-1")
    runs(cluster, "tenant", "dcgm-exporter-y", "gpu-2")
    text = by_operator(cluster, "podMonitor")
    rules = held(cluster, SITE, "configmap", "prometheus-podmonitor-rulefiles-0")["data"]
    theirs = series(cluster, 9091, text, rules)
    groups = ask(cluster, 9091, "rules")["groups"]
    found = {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}
    assert set(found) == monitoring.rules(jobs=frozenset({"dcgm-exporter"}))
    assert "err" not in found.values()

    by_gpu_operator(cluster)
    services = series(cluster, 9092, by_operator(cluster, "serviceMonitor"), {})

    # What is for the operator goes, when Prometheus is to be ours.
    managed = EXISTING | {
        "gpu_monitoring_prometheus": "managed",
        "gpu_monitoring_alertmanager": "existing",
        "gpu_monitoring_alertmanager_url": f"http://alertmanager.{SITE}.svc:9093/alerts",
    }
    serves(cluster, SITE, "alertmanager", {"name": "web", "port": 9093})
    assert "where no Alertmanager answers: " in (output := role(cluster, managed, refused=True)), output
    held(cluster, OURS, "podmonitor", "gpusmith-dcgm-exporter")
    (cluster.folder / "alertmanager.yml").write_text("route: {receiver: us}\nreceivers: [{name: us}]\n")
    words = (
        "--web.external-url=http://here/alerts",
        "--cluster.listen-address=",
        f"--storage.path={cluster.folder}/am",
    )
    cluster.start("alertmanager", f"--config.file={cluster.folder}/alertmanager.yml", *words)
    cluster.wait("Alertmanager listens", "ss", "-ltn", says=":9093")
    role(cluster, managed)
    assert cluster.run("kubectl", "-n", OURS, "get", "podmonitors,prometheusrules").startswith("No resources")
    files = [held(cluster, OURS, "configmap", name)["data"] for name in ("prometheus", "prometheus-rules")]
    ours = series(cluster, 9095, files[0]["prometheus.yml"], files[1])
    plain = series(cluster, 9094, by_docs(), {})
    wanted = [SERIES, FREE]
    # The GPU Operator's ServiceMonitor changes no labels of values.
    assert (theirs, services, ours, plain) == (wanted, [row | NOT_KEPT for row in wanted], wanted, wanted)
