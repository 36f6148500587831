"""A real Prometheus Operator, beside a real API server, reads what role gpu_monitoring makes for it.

Its Prometheus, a managed one, and one with the scrape job of docs/monitoring.md get the same series of the same exporter.
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
SELECTED = {"release": "stack"}
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
SAID = (
    f'{METRIC}{{gpu="0",UUID="GPU-1",modelName="NVIDIA H100",Hostname="dcgm-exporter-x",'
    'DCGM_FI_DRIVER_VERSION="580.1",container="train",namespace="team-a",pod="train-0"} 40\n'
)
EXPORTER = f"""
import http.server
class Exporter(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write({SAID!r}.encode())
http.server.ThreadingHTTPServer(("127.0.0.1", 9400), Exporter).serve_forever()
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


def role(cluster: Cluster, **given: Any) -> str:
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
    return cluster.run(program, "-i", str(cluster.folder / "hosts.json"), str(cluster.folder / "play.json"))


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
    address = {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}
    status = json.dumps({"status": {"phase": "Running", "conditions": ready, **address}})
    cluster.run(
        "kubectl", "-n", space, "patch", "pod", name, "--subresource=status", "--type=merge", "-p", status
    )


def by_operator(cluster: Cluster) -> tuple[str, dict[str, str]]:
    """The configuration that the operator has made, and the rules."""
    look = ["kubectl", "-n", SITE, "get", "-o", "yaml"]
    cluster.wait("the rules arrive", *look, "configmaps", says="GpusmithWatchdog")

    def configuration() -> str:
        text = held(cluster, SITE, "secret", "prometheus-p")["data"]["prometheus.yaml.gz"]
        return gzip.decompress(b64decode(text)).decode()

    cluster.wait("there is a configuration", *look, "secrets", says="prometheus.yaml.gz")
    rules = held(cluster, SITE, "configmap", "prometheus-p-rulefiles-0")["data"]
    # What the pod's reloader fills in.
    return configuration().replace("$(SHARD)", "0"), rules


def by_docs() -> str:
    """The scrape job of docs/monitoring.md for a Prometheus without an operator."""
    text = (repo_root() / "docs/monitoring.md").read_text()
    (job,) = re.findall(r"^```yaml\n(- job_name: dcgm-exporter\n.*?)^```", text, re.MULTILINE | re.DOTALL)
    return yaml.safe_dump({"global": {"scrape_interval": "5s"}, "scrape_configs": yaml.safe_load(job)})


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
    # Of a pod of somebody else they would have come in the same interval.
    return [
        row["metric"] for row in ask(cluster, port, "query", f"query=last_over_time({METRIC}[1m])")["result"]
    ]


def test_its_prometheus_gets_what_a_managed_one_gets(cluster: Cluster) -> None:
    programs = real_control_plane.programs("prometheus-operator", "prometheus")
    cluster = replace(cluster, path=f"{programs}:{cluster.path}")
    cluster.run("kubectl", "apply", "--server-side", "-f", str(definitions()))
    cluster.run("kubectl", "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
    for space in (SITE, EXPORTERS, "tenant"):
        cluster.run("kubectl", "create", "namespace", space)
    make(
        cluster,
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": SITE, "namespace": SITE}},
        PROMETHEUS,
    )
    cluster.run("kubectl", "create", "clusterrole", SITE, "--verb=get,list,watch", "--resource=pods")
    cluster.run(
        "kubectl",
        "create",
        "clusterrolebinding",
        SITE,
        f"--clusterrole={SITE}",
        f"--serviceaccount={SITE}:{SITE}",
    )
    cluster.put(
        {
            "/run/secrets/kubernetes.io/serviceaccount/token": cluster.run(
                "kubectl", "-n", SITE, "create", "token", SITE
            ),
            "/run/secrets/kubernetes.io/serviceaccount/ca.crt": cluster.place(
                "/etc/kubernetes/pki/ca.crt"
            ).read_text(),
        }
    )

    # The real definitions take all that the role makes, and a second run has nothing to do.
    for changed in (1, 0):
        assert f"changed={changed} " in (output := role(cluster, **EXISTING)), output
    runs(cluster, EXPORTERS, "dcgm-exporter-x", "gpu-1")
    runs(cluster, "tenant", "dcgm-exporter-y", "gpu-2")
    cluster.start(sys.executable, "-c", EXPORTER)
    cluster.start("operator", "--web.listen-address=127.0.0.1:8080")
    theirs = series(cluster, 9091, *by_operator(cluster))
    groups = ask(cluster, 9091, "rules")["groups"]
    found = {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}
    assert set(found) == monitoring.rules(jobs=frozenset({"dcgm-exporter"}))
    assert "err" not in found.values()

    # What is for the operator goes, when Prometheus is to be ours.
    role(cluster, **EXISTING | {"gpu_monitoring_prometheus": "managed"})
    assert cluster.run("kubectl", "-n", OURS, "get", "podmonitors,prometheusrules").startswith("No resources")
    files = [held(cluster, OURS, "configmap", name)["data"] for name in ("prometheus", "prometheus-rules")]
    ours = series(cluster, 9092, files[0]["prometheus.yml"], files[1])
    plain = series(cluster, 9093, by_docs(), {})
    assert (theirs, ours, plain) == ([SERIES], [SERIES], [SERIES])
