"""A cluster whose API server is reached through a load balancer, by a name and a port that no control plane has.

As of 'kubeadm init' with controlPlaneEndpoint: the certificate has the name, and cluster-info gives it to nodes that join.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from gpusmith.wait import Deadline, Done, NotYet, wait_until
from tests.e2e.harness import Ended, Lab

NODE, HOST = "gpu-1", "cp-1"
NAME, PORT, ETCD = "api.example.com", 8443, 2379
THROUGH = f"{NAME}:{PORT}"
VARIABLE = "kubernetes_node_control_plane_endpoint"
LOG = "/run/balancer.log"
# Passes connections on, and notes from whom they come.
PROGRAM = f"""
import socket, threading

def copy(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        source.close()
        target.close()

listener = socket.create_server(("", {PORT}), backlog=64)
while True:
    client, (address, _port) = listener.accept()
    with open("{LOG}", "a") as log:
        print(address, file=log)
    server = socket.create_connection(("127.0.0.1", 6443))
    for pair in ((client, server), (server, client)):
        threading.Thread(target=copy, args=pair, daemon=True).start()
"""
CONFIGURATION = "/root/cluster-configuration.yaml"
INFO = "kubectl --kubeconfig=/etc/kubernetes/admin.conf -n kube-public"
RENEW = f"""cd /etc/kubernetes/pki
rm apiserver.crt apiserver.key
kubeadm init phase certs apiserver --config {CONFIGURATION}
kubeadm init phase upload-config kubeadm --config {CONFIGURATION}
{INFO} get configmap cluster-info -o yaml | sed 's#server: .*#server: https://{THROUGH}#' | {INFO} apply -f -
pkill -x kube-apiserver"""
CERTIFICATE = (
    f"openssl s_client -connect 127.0.0.1:6443 </dev/null 2>/dev/null | openssl x509 -noout -checkhost {NAME}"
)
OFF = {"ansible_host": "127.0.0.1", "ansible_port": 1}


@dataclass(frozen=True)
class Site:
    """One node to be, and a control plane.

    Attributes:
        lab: that it is of.
        inventory: to be changed.
        plain: the endpoint without a load balancer.
        address: of the machine that has both.
    """

    lab: Lab
    inventory: Path
    plain: str
    address: str

    def run(self, endpoint: str, **values: str) -> Ended:
        """site.yml with an endpoint in the inventory."""
        path = Path("group_vars/all.yml")
        as_written = yaml.safe_load((self.lab.inventory / path).read_text())
        (self.inventory / path).write_text(yaml.safe_dump({**as_written, VARIABLE: endpoint, **values}))
        return self.lab.site(inventory=self.inventory)

    def refused(self, words: str, endpoint: str, **values: str) -> None:
        """site.yml ends before it changes anything."""
        ended = self.run(endpoint, **values)
        assert ended.status != 0, str(ended)
        assert words in " ".join(ended.output.split()), str(ended)
        assert not any(row["changed"] for row in ended.recap().values()), str(ended)

    def unchanged(self, endpoint: str) -> None:
        """A run that finds nothing to do."""
        ended = self.run(endpoint)
        assert ended.status == 0, str(ended)
        assert {host: row["changed"] for host, row in ended.recap().items() if row["changed"]} == {}, str(
            ended
        )


@pytest.fixture(scope="module")
def site(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    lab = Lab(root, root / ".cache" / "long" / str(int(time.time())))
    lab.gpulab("down")
    lab.up("--gpu-nodes", "1", "--gpus", "1")
    inventory = lab.copy_inventory(tmp_path_factory.mktemp("inventory"))
    (inventory / "off.yml").write_text(yaml.safe_dump({"all": {"hosts": {"cp-2": OFF}}}))
    plain = yaml.safe_load((inventory / "group_vars" / "all.yml").read_text())[VARIABLE]
    address = lab.on(HOST, "hostname -I | cut -d' ' -f1").strip()
    give_name(lab)
    for machine in (HOST, NODE):
        lab.on(machine, f"echo {address} {NAME} >> /etc/hosts")
    yield Site(lab, inventory, plain, address)
    lab.gpulab("down")


def give_name(lab: Lab) -> None:
    """Make the cluster one that calls itself by the load balancer's name."""
    stored = lab.get("configmap", "kubeadm-config", "--namespace=kube-system")["data"]["ClusterConfiguration"]
    text = yaml.safe_dump({**yaml.safe_load(stored), "controlPlaneEndpoint": THROUGH})
    write(lab, CONFIGURATION, text)
    lab.on(HOST, RENEW)

    def look() -> Done[None] | NotYet:
        said = lab.on(HOST, f"{CERTIFICATE} || true")
        return Done(None) if "does match" in said else NotYet(said)

    wait_until("the API server's new certificate", look, Deadline(120))


def write(lab: Lab, path: str, text: str) -> None:
    """A file of the control plane's machine."""
    lab.on(HOST, f"echo {base64.b64encode(text.encode()).decode()} | base64 -d > {path}")


def test_nothing_is_changed_while_the_load_balancer_is_down(site: Site) -> None:
    site.refused(f"no API server answers at '{THROUGH}' from this machine", THROUGH)


def test_a_machine_joins_through_the_load_balancer_and_a_second_run_does_nothing(site: Site) -> None:
    write(site.lab, "/run/balancer.py", PROGRAM)
    site.lab.on(HOST, "systemd-run --quiet --unit=balancer python3 /run/balancer.py")
    # The second control plane host of the inventory is off: before anything is installed.
    site.refused(
        "made on 'cp-2' ('kubernetes_node_token_host'), and that host does not answer",
        THROUGH,
        kubernetes_node_token_host="cp-2",
    )
    ended = site.run(THROUGH)
    assert ended.status == 0, str(ended)
    site.lab.wait_allocatable({NODE: 1}, 60)
    (server,) = re.findall(r"server: (\S+)", site.lab.on(NODE, "cat /etc/kubernetes/kubelet.conf"))
    assert server == f"https://{THROUGH}"
    node = site.lab.on(NODE, "hostname -I | cut -d' ' -f1").strip()
    assert node in site.lab.on(HOST, f"cat {LOG}").split()
    site.unchanged(THROUGH)


def test_a_node_is_known_however_its_endpoint_is_written(site: Site) -> None:
    """The control plane's own address, other letters, and the balancer's address, which cluster-info does not have."""
    starts = site.lab.service_starts(NODE)
    for endpoint in (site.plain, THROUGH.upper(), f"{site.address}:{PORT}"):
        site.unchanged(endpoint)
    assert site.lab.service_starts(NODE) == starts


def test_another_authority_behind_the_endpoint_is_refused(site: Site) -> None:
    """As of another cluster: etcd has one of its own."""
    site.refused(f"but the nodes would join '{site.address}:{ETCD}'", f"{site.address}:{ETCD}")
