"""A site whose machines go out by an HTTP proxy: from bare machines to jobs, and a proxy that changes under nodes that serve."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.harness import NAMESPACE, Ended, Lab, PodSpec

NODES = ("gpu-1", "gpu-2")
UNITS = ("containerd", "kubelet")
HOST = "cp-1"
PORT = 3128
LOG = "/run/proxy.log"
# Forwards what it is asked for, and notes by whom.
PROGRAM = """
import http.client, http.server, shutil, urllib.parse

class Proxy(http.server.BaseHTTPRequestHandler):
    def forward(self):
        with open("%s", "a") as log:
            print(self.client_address[0], self.command, self.path, file=log)
        where = urllib.parse.urlsplit(self.path)
        there = http.client.HTTPConnection(where.netloc, timeout=60)
        target = urllib.parse.urlunsplit(("", "", *where[2:]))
        kept = {name: text for name, text in self.headers.items() if name.lower() != "proxy-connection"}
        there.request(self.command, target, headers={**kept, "Connection": "close"})
        answer = there.getresponse()
        self.send_response(answer.status)
        for name, text in answer.getheaders():
            if name.lower() not in ("connection", "transfer-encoding"):
                self.send_header(name, text)
        self.end_headers()
        shutil.copyfileobj(answer, self.wfile)
        there.close()
    do_GET = do_HEAD = forward
    def log_message(self, *words):
        pass

http.server.ThreadingHTTPServer(("", %d), Proxy).serve_forever()
""" % (LOG, PORT)  # noqa: UP031 - the program has braces


@dataclass(frozen=True)
class Site:
    """Two nodes of different package managers, and a proxy on the control plane's machine."""

    lab: Lab
    inventory: Path
    addresses: dict[str, str]

    @property
    def url(self) -> str:
        """Of the proxy."""
        return f"http://{self.addresses[HOST]}:{PORT}"

    def want(self, proxy: dict[str, Any]) -> None:
        """Change the inventory."""
        path = self.inventory / "group_vars" / "all.yml"
        values = yaml.safe_load(path.read_text())
        path.write_text(yaml.safe_dump({**values, "gpusmith_proxy": proxy}))

    def site(self) -> Ended:
        """Run site.yml, which must succeed."""
        ended = self.lab.site(inventory=self.inventory)
        assert ended.status == 0, str(ended)
        return ended

    def unchanged(self) -> None:
        """A run that finds nothing to do."""
        ended = self.site()
        changed = {host: row["changed"] for host, row in ended.recap().items() if row["changed"]}
        assert changed == {}, str(ended)

    def asked(self, node: str) -> list[str]:
        """Paths that the node has asked the proxy for."""
        rows = (line.split(" ", 2) for line in self.lab.on(HOST, f"cat {LOG}").splitlines())
        return [path for who, _method, path in rows if who == self.addresses[node]]

    def environment(self, node: str, unit: str) -> dict[str, str]:
        """What the running service has of the proxy."""
        script = f"tr '\\0' '\\n' < /proc/$(systemctl show --value --property=MainPID {unit})/environ | grep PROXY || true"
        return dict(line.split("=", 1) for line in self.lab.on(node, script).splitlines())


@pytest.fixture(scope="module")
def site(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    lab = Lab(root, root / ".cache" / "long" / str(int(time.time())))
    lab.gpulab("down")
    lab.up("--gpu-nodes", "2", "--gpus", "2", "--os", "gpu-2=rocky-9")
    inventory = lab.copy_inventory(tmp_path_factory.mktemp("inventory"))
    program = base64.b64encode(PROGRAM.encode()).decode()
    lab.on(HOST, f"touch {LOG}; echo {program} | base64 -d > /run/proxy.py")
    lab.on(HOST, "systemd-run --quiet --unit=proxy python3 /run/proxy.py")
    own = "hostname -I | cut -d' ' -f1"
    yield Site(lab, inventory, {name: lab.on(name, own).strip() for name in (HOST, *NODES)})
    lab.gpulab("down")


def test_bare_machines_are_made_nodes_by_way_of_the_proxy(site: Site) -> None:
    site.want({"http": site.url})
    site.site()
    for node, suffix in zip(NODES, (".deb", ".rpm"), strict=True):
        asked = site.asked(node)
        assert any(path.endswith(suffix) for path in asked), asked
        assert any(re.search(r"/v2/.*/blobs/", path) for path in asked), asked
        for unit in UNITS:
            told = site.environment(node, unit)
            assert told["HTTP_PROXY"] == site.url
            assert {"localhost", ".svc"} <= set(told["NO_PROXY"].split(","))
    site.lab.wait_allocatable(dict.fromkeys(NODES, 2), 60)
    site.unchanged()


def test_another_proxy_comes_to_nodes_that_serve_one_after_another(site: Site) -> None:
    lab = site.lab
    values = yaml.safe_load((site.inventory / "group_vars" / "gpu_nodes.yml").read_text())
    lab.kubectl("create", "namespace", NAMESPACE)
    lab.apply(
        *(
            PodSpec(f"job-{node}", node, gpus=1).manifest(values["validation_images"]["cuda"])
            for node in NODES
        )
    )
    ready = ("pods", "--all", "--for=condition=Ready", "--timeout=120s")
    lab.kubectl("wait", f"--namespace={NAMESPACE}", *ready, timeout=150)
    before, jobs = {node: site.lab.started(node, *UNITS) for node in NODES}, site.lab.containers()

    site.want({"http": site.url, "no_proxy": ["registry.example.com", "10.0.0.0/8"]})
    changed = site.site()
    starts = {node: site.lab.started(node, *UNITS) for node in NODES}
    for unit in UNITS:
        assert abs(starts["gpu-2"][unit] - starts["gpu-1"][unit]) > 1_000_000, str(changed)
        for node in NODES:
            assert starts[node][unit] > before[node][unit], str(changed)
            assert site.environment(node, unit)["NO_PROXY"].endswith(",registry.example.com,10.0.0.0/8")
    assert site.lab.containers() == jobs
    site.unchanged()


def test_a_proxy_that_nobody_reaches_restarts_nothing(site: Site) -> None:
    starts = {node: site.lab.started(node, *UNITS) for node in NODES}
    dead = f"http://{site.addresses[HOST]}:{PORT + 1}"
    site.want({"http": dead})
    ended = site.lab.site(inventory=site.inventory)
    assert ended.status != 0, str(ended)
    assert f"proxy: '{dead}' takes no connection" in " ".join(ended.output.split()), str(ended)
    assert {node: site.lab.started(node, *UNITS) for node in NODES} == starts
    assert not any(row["changed"] for row in ended.recap().values()), str(ended)


def test_a_proxy_that_leaves_the_inventory_leaves_the_nodes(site: Site) -> None:
    jobs = site.lab.containers()
    site.want({})
    site.site()
    assert {(node, unit): site.environment(node, unit) for node in NODES for unit in UNITS} == {
        (node, unit): {} for node in NODES for unit in UNITS
    }
    assert site.lab.containers() == jobs
    site.unchanged()
