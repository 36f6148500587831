"""An API server of a large cluster, for measurements: lists in pages, as large as real ones, and what was asked of it.

    python -m tests.fleet.api NODES FOLDER

writes a kubeconfig into the folder and serves until it is ended; FOLDER/asked.json counts requests and bytes by path. It refuses
every change.
"""

from __future__ import annotations

import json
import sys
import threading
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.fleet.prometheus import PROXY, FakePrometheus
from tests.fleet.site import BOOT, DRIVER, GPUS, MACHINE, name_of

Object = dict[str, Any]

KUBECONFIG = """apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "{server}"}}}}]
users: [{{name: u, user: {{token: t}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
"""
NAME, INDEX = "@NAME@", "@INDEX@"
OURS = "gpusmith-system"
FEATURES = 60
"""Labels of node feature discovery, as an Intel server has them."""
IMAGES = 50
"""The kubelet names so many images of a node: most of a Node's size."""


def node() -> Object:
    """A healthy GPU node that site.yml has set up."""
    resources = {"cpu": "192", "memory": "2113400000Ki", "pods": "110", "nvidia.com/gpu": str(GPUS)}
    labels = {
        "kubernetes.io/hostname": NAME,
        "gpu-type": "h100-sxm",
        "gpusmith.io/operands": "enabled",
        "gpusmith.io/gpus": str(GPUS),
        "nvidia.com/gpu.count": str(GPUS),
        "nvidia.com/cuda.driver-version.full": DRIVER,
        **{f"feature.node.kubernetes.io/cpu-cpuid.FEATURE{n}": "true" for n in range(FEATURES)},
    }
    written: Object = {"f:metadata": {"f:labels": {f"f:{key}": {} for key in labels}}}
    return {
        "metadata": {
            "name": NAME,
            "uid": f"00000000-0000-0000-0000-{INDEX}",
            "resourceVersion": f"1{INDEX}",
            "labels": labels,
            "annotations": {"gpusmith.io/owned-taints": "nvidia.com/gpu:NoSchedule"},
            "managedFields": [{"manager": "nfd-master", "operation": "Update", "fieldsV1": written}],
        },
        "spec": {"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "False"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {"machineID": MACHINE + NAME, "bootID": BOOT + NAME, "kubeletVersion": "v1.36.3"},
            "images": [
                {"names": [f"registry.example.com/team-{n}/application@sha256:{n:064x}"], "sizeBytes": n}
                for n in range(IMAGES)
            ],
        },
    }


def pod(namespace: str, name: str, image: str, command: str = "") -> Object:
    """A running pod of a DaemonSet."""
    container: Object = {
        "name": name,
        "image": image,
        "env": [{"name": f"SETTING_{n}", "value": f"value-{n}"} for n in range(15)],
        "resources": {"requests": {"cpu": "50m"}, "limits": {"memory": "256Mi"}},
        **({"command": [command]} if command else {}),
    }
    fields = {"f:spec": {"f:containers": {f"f:{key}": {} for key in container}}, "f:status": {"f:phase": {}}}
    states = [{"name": name, "ready": True, "state": {"running": {}}, "imageID": "sha256:" + "0" * 64}]
    mounted = [{"name": "plugins", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}]
    return {
        "metadata": {
            "name": f"{name}-{INDEX}",
            "namespace": namespace,
            "uid": f"{len(name):08d}-0000-0000-0000-{INDEX}",
            "labels": {"app.kubernetes.io/name": name},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "controller": True}
            ],
            "managedFields": [
                {"manager": "kube-controller-manager", "operation": "Update", "fieldsV1": fields}
            ],
        },
        "spec": {
            "nodeName": NAME,
            "containers": [container],
            "tolerations": [{"key": f"taint-{n}", "operator": "Exists"} for n in range(8)],
            **({"volumes": mounted} if command == "nvidia-device-plugin" else {}),
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": kind, "status": "True"} for kind in ("Initialized", "Ready", "PodScheduled")
            ],
            "containerStatuses": states,
        },
    }


PODS = [
    pod(OURS, "nvidia-device-plugin", "nvcr.io/nvidia/k8s-device-plugin:v1", "nvidia-device-plugin"),
    pod(OURS, "gpu-feature-discovery", "nvcr.io/nvidia/k8s-device-plugin:v1", "gpu-feature-discovery"),
    pod(OURS, "nfd-worker", "registry.k8s.io/nfd/node-feature-discovery:v1"),
    *(pod("kube-system", name, f"registry.example.com/{name}:1") for name in ("network", "kube-proxy")),
    *(pod("team", f"application-{n}", f"registry.example.com/application-{n}:1") for n in range(5)),
]
"""What runs on each node."""


class Fleet:
    """The objects, made when they are asked for.

    Args:
        nodes: how many.
        made: the first ones, and one that all others are like; by default nodes that site.yml has set up.
        pods: of each node.
        prometheus: what watches them.
    """

    def __init__(
        self,
        nodes: int,
        made: Sequence[Object] = (),
        pods: Sequence[Object] = (),
        prometheus: FakePrometheus | None = None,
    ) -> None:
        self.nodes, self.prometheus = nodes, prometheus
        self._nodes = [json.dumps(row) for row in made or (node(),)]
        self._pods = [json.dumps(row) for row in pods or PODS]
        self.refused: set[str] = set()
        self.asked: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()
        self.interrupt: Callable[[], None] = lambda: None

    def _filled(self, text: str, index: int) -> str:
        return text.replace(NAME, name_of(index)).replace(INDEX, f"{index:012d}")

    def node(self, index: int) -> str:
        """The Node with a number."""
        return self._filled(self._nodes[min(index, len(self._nodes) - 1)], index)

    def pod(self, index: int) -> str:
        """The pod with a number; after all others comes the one that is there once."""
        place, kind = divmod(index, len(self._pods))
        if place == self.nodes:
            return self._filled(
                json.dumps(pod(OURS, "nfd-master", PODS[2]["spec"]["containers"][0]["image"])), 0
            )
        return self._filled(self._pods[kind], place)

    def of_pods(self, method: str, path: str, query: dict[str, str], body: Object) -> tuple[int, str] | None:
        """What is answered about pods of a run; None where there are none, and nothing can be made."""

    def beside_lists(
        self, method: str, path: str, query: dict[str, str], body: Object
    ) -> tuple[int, str] | None:
        """Status and answer of what is no list of the cluster; None of others."""
        if path == "/readyz":
            return 200, "ok"
        whole = urllib.parse.unquote(path)
        if self.prometheus and whole.startswith(PROXY.partition("{")[0]):
            answer = self.prometheus.answer(whole, query)
            return (200, answer) if answer else (503, "no endpoints available")
        return self.of_pods(method, path, query, body)

    def page(self, path: str, limit: int, start: int) -> str | None:
        """Part of a list as text; None of a list that there is not."""
        lists: dict[str, tuple[int, Callable[[int], str]]] = {
            "/api/v1/nodes": (self.nodes, self.node),
            "/api/v1/pods": (self.nodes * len(self._pods) + 1, self.pod),
            "/apis/node.k8s.io/v1/runtimeclasses": (1, lambda _: RUNTIME_CLASS),
            "/apis/apps/v1/daemonsets": (0, str),
            "/api/v1/namespaces": (0, str),
            "/api/v1/resourcequotas": (0, str),
            "/api/v1/limitranges": (0, str),
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies": (0, str),
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings": (0, str),
        }
        if path not in lists or path in self.refused:
            return None
        total, make = lists[path]
        end = min(total, start + (limit or total))
        rest = {"continue": str(end), "remainingItemCount": total - end} if end < total else {}
        items = ",".join(make(index) for index in range(start, end))
        return f'{{"metadata":{json.dumps({"resourceVersion": "1", **rest})},"items":[{items}]}}'


RUNTIME_CLASS = json.dumps({"metadata": {"name": "nvidia"}, "handler": "nvidia"})


def handler(fleet: Fleet) -> type[BaseHTTPRequestHandler]:
    """Answers for a fleet."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Not wanted."""

        def _send(self, text: str, status: int = 200) -> None:
            data = text.encode()
            path = urllib.parse.urlsplit(self.path).path
            fleet.asked[f"{self.command} {path}"] += 1
            fleet.sent[path] += len(data)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _beside_lists(self) -> bool:
            asked = urllib.parse.urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            query = dict(urllib.parse.parse_qsl(asked.query))
            found = fleet.beside_lists(self.command, asked.path, query, json.loads(body or "{}"))
            if found is not None:
                self._send(found[1], found[0])
            return found is not None

        def do_GET(self) -> None:
            asked = urllib.parse.urlsplit(self.path)
            query = dict(urllib.parse.parse_qsl(asked.query))
            if self._beside_lists():
                return
            page = fleet.page(asked.path, int(query.get("limit", 0)), int(query.get("continue", 0)))
            if asked.path in fleet.refused:
                self._send('{"kind": "Status", "message": "User \\"u\\" cannot list it", "code": 403}', 403)
            elif page is None:
                self._send('{"kind": "Status", "message": "there is none", "code": 404}', 404)
            else:
                self._send(page)

        def do_POST(self) -> None:
            if self._beside_lists():
                return
            self._send('{"kind": "Status", "message": "it is to be read only", "code": 403}', 403)

        do_PATCH = do_DELETE = do_PUT = do_POST  # noqa: N815 - names of the base class

    return Handler


def served(nodes: int, folder: Path, fleet: Fleet | None = None) -> Iterator[Fleet]:
    """Serve until the caller is done; the kubeconfig is in the folder."""
    fleet = fleet or Fleet(nodes)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler(fleet)) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        (folder / "kubeconfig").write_text(KUBECONFIG.format(server=address))
        yield fleet
        server.shutdown()


if __name__ == "__main__":
    target = Path(sys.argv[2])
    for running in served(int(sys.argv[1]), target):
        print("ready", flush=True)
        sys.stdin.read()
        asked = {"requests": running.asked, "bytes": running.sent}
        (target / "asked.json").write_text(json.dumps(asked, indent=2))
