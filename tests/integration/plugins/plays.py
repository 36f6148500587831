"""Real plays beside an API server of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from gpusmith.paths import repo_root
from tests.unit.cluster.conftest import KUBECONFIG


class Api(ThreadingHTTPServer):
    """Nodes, pods, and the object of claims.

    Attributes:
        nodes: Node objects by name.
        data: what the object of claims holds.
        changes: every patch of it.
    """

    daemon_threads = True

    def __init__(self, nodes: dict[str, Any]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.nodes = nodes
        self.pods: list[dict[str, Any]] = []
        self.data: dict[str, str] = {}
        self.changes: list[dict[str, str | None]] = []

    @property
    def claims(self) -> list[str]:
        """All that were ever entered."""
        return [text for change in self.changes for text in change.values() if text is not None]

    def change(self, sent: Mapping[str, str | None]) -> None:
        """A merge patch of the object of claims."""
        self.changes.append(dict(sent))
        rows = {**self.data, **sent}
        self.data = {name: text for name, text in rows.items() if text is not None}


class _Handler(BaseHTTPRequestHandler):
    server: Api

    def answer(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.command == "PATCH":
            self.server.change(json.loads(sent)["data"])
        kind = self.path.partition("?")[0].rpartition("/")[2]
        lists = {
            "nodes": list(self.server.nodes.values()),
            "pods": self.server.pods,
            "poddisruptionbudgets": [],
        }
        found: Any = {"metadata": {"resourceVersion": "1"}, "data": self.server.data}
        text = json.dumps({"items": lists[kind]} if kind in lists else found).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_PATCH = answer  # noqa: N815 - names of the base class

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serving(nodes: dict[str, Any]) -> Iterator[Api]:
    """An API server with these Nodes."""
    made = Api(nodes)
    threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def kubeconfig(folder: Path, api: Api) -> str:
    """Path of the file that leads to a server."""
    path = folder / "kubeconfig"
    path.write_text(KUBECONFIG.format(server=f"http://127.0.0.1:{api.server_port}"))
    return str(path)


def play(folder: Path, hosts: Mapping[str, Any], content: Mapping[str, Any], *words: str) -> tuple[int, str]:
    """Exit status and output of one play on the group gpu_nodes, with variables by host."""
    (folder / "hosts.json").write_text(json.dumps({"gpu_nodes": {"hosts": hosts}}))
    (folder / "play.json").write_text(json.dumps([{"hosts": "gpu_nodes", "gather_facts": False, **content}]))
    program = Path(sys.executable).parent / "ansible-playbook"
    done = subprocess.run(
        [str(program), "-i", str(folder / "hosts.json"), str(folder / "play.json"), *words],
        env={**os.environ, "NO_COLOR": "1", "ANSIBLE_CONFIG": str(repo_root() / "ansible.cfg")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=folder,
    )
    return done.returncode, done.stdout + done.stderr
