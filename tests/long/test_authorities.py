"""Mirrors and registry with certificates of a site's own authority: from bare machines to jobs, and authorities that change."""

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

from tests.authorities import Authority, authority
from tests.e2e.harness import NAMESPACE, Ended, Lab, PodSpec

PACKAGES = {"gpu-1": ".rpm", "gpu-2": ".deb"}
"""How the names of packages end, by node."""
NODES = tuple(PACKAGES)
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
HOST = "cp-1"
PORT = 8443
FOLDER = "/run/front"
# Ends TLS, and forwards: what registries are asked for to the registry, all else to the mirrors.
PROGRAM = """
import http.client, http.server, shutil, ssl, sys

REGISTRY, MIRRORS = sys.argv[1:]

class Front(http.server.BaseHTTPRequestHandler):
    # apt 3.0 takes a connection that ends after an answer for a fault of TLS.
    protocol_version = "HTTP/1.1"

    def forward(self):
        where = REGISTRY if self.path.startswith("/v2/") else MIRRORS
        with open("%(folder)s/log", "a") as log:
            print(self.client_address[0], self.command, self.path, file=log)
        there = http.client.HTTPConnection(where, timeout=60)
        kept = {name: text for name, text in self.headers.items() if name.lower() != "host"}
        there.request(self.command, self.path, headers={**kept, "Host": where, "Connection": "close"})
        answer = there.getresponse()
        self.send_response(answer.status)
        for name, text in answer.getheaders():
            if name.lower() not in ("connection", "transfer-encoding"):
                self.send_header(name, text)
        if answer.getheader("Content-Length") is None:
            self.send_header("Connection", "close")
        self.end_headers()
        shutil.copyfileobj(answer, self.wfile)
        there.close()
    do_GET = do_HEAD = forward
    def log_message(self, *words):
        pass

class Server(http.server.ThreadingHTTPServer):
    def finish_request(self, request, address):
        # Here, and not where connections are accepted: a client that refuses the certificate delays nobody.
        super().finish_request(context.wrap_socket(request, server_side=True), address)

context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("%(folder)s/server.pem", "%(folder)s/server.key")
Server(("", %(port)d), Front).serve_forever()
""" % {"folder": FOLDER, "port": PORT}  # noqa: UP031 - the program has braces


@dataclass(frozen=True)
class Site:
    """Two nodes of different distributions that reach mirrors and registry by TLS alone."""

    lab: Lab
    inventory: Path
    authority: Authority
    addresses: dict[str, str]

    def want(self, **certificates: str) -> None:
        """Change the inventory."""
        path = self.inventory / "group_vars" / "all.yml"
        values = yaml.safe_load(path.read_text())
        path.write_text(yaml.safe_dump({**values, "gpusmith_ca_certificates": certificates}))

    def site(self) -> Ended:
        """Run site.yml, which must succeed."""
        ended = self.lab.site(inventory=self.inventory)
        assert ended.status == 0, str(ended)
        return ended

    def unchanged(self) -> None:
        """A run that finds nothing to do."""
        ended = self.site()
        assert not any(row["changed"] for row in ended.recap().values()), str(ended)

    def asked(self, node: str) -> list[str]:
        """Paths that the node has asked for."""
        rows = (line.split(" ", 2) for line in self.lab.on(HOST, f"cat {FOLDER}/log").splitlines())
        return [path for who, _method, path in rows if who == self.addresses[node]]

    def starts(self) -> dict[str, int]:
        """When containerd was started, by node."""
        return {node: self.lab.started(node, "containerd")["containerd"] for node in NODES}

    def trusts(self, node: str, certificate: str) -> bool:
        """Whether the trust store of the node has a certificate."""
        line = certificate.splitlines()[2]
        return line in self.lab.on(node, f"cat {BUNDLE}")


def _front(lab: Lab, pair_texts: dict[str, str], upstreams: tuple[str, str]) -> None:
    """Start the server on the control plane's machine."""
    lab.on(HOST, f"mkdir -p -m 0700 {FOLDER}; touch {FOLDER}/log")
    for name, text in pair_texts.items():
        lab.on(HOST, f"echo {base64.b64encode(text.encode()).decode()} | base64 -d > {FOLDER}/{name}")
    lab.on(HOST, f"systemd-run --quiet --unit=front python3 {FOLDER}/front.py {' '.join(upstreams)}")


def _by_tls(inventory: Path, front: str) -> tuple[str, str]:
    """Let the inventory name the front instead of registry and mirrors, whose addresses come back."""
    mirrors, registry = set(), ""
    for path in sorted(inventory.rglob("*.yml")):
        text = path.read_text()
        mirrors |= set(re.findall(r"http://([^/\s'\"]+)/", text))
        values = yaml.safe_load(text)
        for row in (values.get("containerd_registries") or []) if isinstance(values, dict) else []:
            registry = row["endpoint"].removeprefix("http://")
    (mirror,) = mirrors
    for path in sorted(inventory.rglob("*.yml")):
        # The registry may be another port of the same machine.
        text = path.read_text().replace(f"http://{registry}", front)
        path.write_text(text.replace(f"http://{mirror}/", f"{front}/"))
    return registry, mirror


@pytest.fixture(scope="module")
def site(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    lab = Lab(root, root / ".cache" / "long" / str(int(time.time())))
    lab.gpulab("down")
    lab.up("--gpu-nodes", "2", "--gpus", "2", "--os", "gpu-1=rocky-9,gpu-2=ubuntu-24.04")
    inventory = lab.copy_inventory(tmp_path_factory.mktemp("inventory"))
    own = "hostname -I | cut -d' ' -f1"
    addresses = {name: lab.on(name, own).strip() for name in (HOST, *NODES)}
    upstreams = _by_tls(inventory, f"https://{addresses[HOST]}:{PORT}")
    signer = authority("the lab's site")
    pair = signer.server(addresses[HOST])
    _front(lab, {"server.pem": pair.certificate, "server.key": pair.key, "front.py": PROGRAM}, upstreams)
    yield Site(lab, inventory, signer, addresses)
    lab.gpulab("down")


def test_without_the_authority_bare_machines_are_refused(site: Site) -> None:
    ended = site.lab.site(inventory=site.inventory)
    assert ended.status != 0, str(ended)
    assert not any(row["changed"] for row in ended.recap().values()), str(ended)
    assert "ertificate" in ended.output, str(ended)


def test_bare_machines_are_made_nodes(site: Site) -> None:
    site.want(site=site.authority.certificate)
    site.site()
    for node in NODES:
        asked = site.asked(node)
        assert any(path.endswith(PACKAGES[node]) for path in asked), asked
        assert any(re.search(r"/v2/.*/blobs/", path) for path in asked), asked
        assert site.trusts(node, site.authority.certificate)
    site.lab.wait_allocatable(dict.fromkeys(NODES, 2), 60)
    site.unchanged()


def test_another_authority_comes_to_nodes_that_serve_one_after_another(site: Site) -> None:
    lab, more = site.lab, authority("another")
    values: dict[str, Any] = yaml.safe_load((site.inventory / "group_vars" / "gpu_nodes.yml").read_text())
    lab.kubectl("create", "namespace", NAMESPACE)
    lab.apply(
        *(
            PodSpec(f"job-{node}", node, gpus=1).manifest(values["validation_images"]["cuda"])
            for node in NODES
        )
    )
    ready = ("pods", "--all", "--for=condition=Ready", "--timeout=120s")
    lab.kubectl("wait", f"--namespace={NAMESPACE}", *ready, timeout=150)
    before, jobs = site.starts(), lab.containers()

    site.want(site=site.authority.certificate, more=more.certificate)
    changed = site.site()
    after = site.starts()
    assert all(after[node] > before[node] for node in NODES), str(changed)
    assert abs(after["gpu-2"] - after["gpu-1"]) > 1_000_000, str(changed)
    assert all(site.trusts(node, more.certificate) for node in NODES)
    assert lab.containers() == jobs
    site.unchanged()


def test_authorities_that_leave_the_inventory_leave_the_nodes(site: Site) -> None:
    # As after a boot: times alone tell what containerd was started with.
    for node in NODES:
        site.lab.on(node, "rm /run/gpusmith/containerd-started-with")
    before, jobs = site.starts(), site.lab.containers()
    site.want()
    site.site()
    after = site.starts()
    assert all(after[node] > before[node] for node in NODES), (before, after)
    assert not any(site.trusts(node, site.authority.certificate) for node in NODES)
    assert site.lab.containers() == jobs
    site.unchanged()
