"""A kubelet whose certificate has expired is let in again by role kubernetes_node, over real programs of Kubernetes.

Needs root, and no lab. All of it runs in namespaces of its own. In place of systemd stands a script that starts the real kubelet.
"""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from gpulab.artifacts import golang
from gpulab.artifacts.components import COMPONENTS
from gpulab.artifacts.store import Store

from gpusmith.paths import cache_dir, repo_root

DAY = dt.timedelta(days=1)
LOCAL = ipaddress.IPv4Address("127.0.0.1")
API, ENDPOINT = "https://127.0.0.1:6443", "127.0.0.1:6443"
CURRENT = "/var/lib/kubelet/pki/kubelet-client-current.pem"
ENTER = """set -e
mount -t proc proc /proc
ip link set lo up
mkdir -p /etc/kubernetes /var/lib/kubelet /var/lib/containerd
for place in /run /etc/kubernetes /var/lib/kubelet /var/lib/containerd; do
    mount -t tmpfs tmpfs "$place"
done
echo ready
exec sleep infinity
"""
# Without cgroups and disks of this machine, which stay as they are.
KUBELET = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "authentication": {"x509": {"clientCAFile": "/etc/kubernetes/pki/ca.crt"}},
    "rotateCertificates": True,
    "cgroupDriver": "cgroupfs",
    "failCgroupV1": False,
    "failSwapOn": False,
    "cgroupsPerQOS": False,
    "enforceNodeAllocatable": [],
    "localStorageCapacityIsolation": False,
}
SYSTEMCTL = """#!/bin/sh
case "$1" in
show) printf 'Id=kubelet.service\\nLoadState=loaded\\nActiveState=active\\nMainPID=0\\n' ;;
restart)
    kill "$(cat /run/kubelet.pid 2>/dev/null)" 2>/dev/null
    setsid kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf \\
        --config=/etc/kubernetes/kubelet.yaml --hostname-override=gpu-1 >>/run/kubelet.log 2>&1 &
    echo $! >/run/kubelet.pid
    ;;
esac
exit 0
"""
# As 'kubeadm init' leaves a cluster.
GROUP = "--group=system:bootstrappers:kubeadm:default-node-token"
ROLES = {
    "bootstrap": "system:node-bootstrapper",
    "approve": "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
}
PLAY = [
    {
        "hosts": "gpu-1",
        "gather_facts": False,
        "vars": {
            "kubernetes_node_version": "1.36.3",
            "kubernetes_node_control_plane_endpoint": ENDPOINT,
            "kubernetes_node_token_host": "cp-1",
            "kubernetes_node_kubeconfig": "/etc/kubernetes/admin.conf",
        },
        "tasks": [
            {"ansible.builtin.include_role": {"name": "gpusmith.gpu.node_record"}},
            *(
                {
                    "ansible.builtin.include_role": {
                        "name": "gpusmith.gpu.kubernetes_node",
                        "tasks_from": entry,
                        "rolespec_validate": False,
                    }
                }
                for entry in ("token", "rejoin")
            ),
        ],
    }
]


class Authority:
    """Of a cluster."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "kubernetes")])
        self.certificate = self._sign(self.name, self.key.public_key(), 100 * DAY, True)

    def issue(self, organisation: str, name: str, left: dt.timedelta) -> str:
        """A certificate with its key, in PEM, that is valid for so long, or no more."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        names = [
            x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, organisation),
            x509.NameAttribute(x509.NameOID.COMMON_NAME, name),
        ]
        return self._sign(x509.Name(names), key.public_key(), left, False) + pem(key)

    def _sign(self, subject: x509.Name, key: rsa.RSAPublicKey, left: dt.timedelta, authority: bool) -> str:
        now = dt.datetime.now(dt.UTC)
        builder = x509.CertificateBuilder(
            self.name, subject, key, x509.random_serial_number(), now - 400 * DAY, now + left
        ).add_extension(x509.BasicConstraints(authority, None), critical=True)
        if not authority:
            local = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(LOCAL)])
            builder = builder.add_extension(local, critical=False)
        return builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def pem(key: rsa.RSAPrivateKey) -> str:
    """A key as a text."""
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


@dataclass(frozen=True)
class Cluster:
    """Namespaces with a control plane and a machine of one node.

    Attributes:
        pid: of the process that keeps them.
        path: where programs are found.
        folder: for what Ansible reads.
    """

    pid: int
    path: str
    folder: Path

    def place(self, name: str) -> Path:
        """A file inside, as it is reached from outside."""
        return Path(f"/proc/{self.pid}/root{name}")

    def put(self, files: Mapping[str, str]) -> None:
        """Files inside, by path."""
        for name, text in files.items():
            self.place(name).parent.mkdir(parents=True, exist_ok=True)
            self.place(name).write_text(text)
            self.place(name).chmod(0o600)

    def run(self, *words: str, check: bool = True) -> str:
        """What a program says inside."""
        done = subprocess.run(
            self._inside(*words),
            env=self._environment(),
            cwd=repo_root(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert not check or done.returncode == 0, done
        return done.stdout + done.stderr

    def start(self, *words: str) -> None:
        """Start a program that ends with the namespaces."""
        with (self.folder / f"{Path(words[0]).name}.log").open("w") as log:
            subprocess.Popen(self._inside(*words), env=self._environment(), cwd="/", stdout=log, stderr=log)

    def wait(self, what: str, *words: str, says: str) -> None:
        """Until a program says a word."""
        said, until = "", time.monotonic() + 60
        while time.monotonic() < until:
            said = self.run(*words, check=False)
            if says in said:
                return
            time.sleep(1)
        pytest.fail(f"{what}: {said}")

    def _inside(self, *words: str) -> list[str]:
        return ["nsenter", "--target", str(self.pid), "--mount", "--net", "--pid", "--", *words]

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PATH": self.path, "KUBECONFIG": "/etc/kubernetes/admin.conf"}

    def play(self, asked: bool, *options: str, check: bool = True, **variables: str) -> str:
        """What role kubernetes_node does of it."""
        play, hosts = self.folder / "play.yml", self.folder / "hosts.yml"
        play.write_text(yaml.safe_dump(PLAY))
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        hosts.write_text(yaml.safe_dump({"all": {"hosts": {"gpu-1": local, "cp-1": local}}}))
        extra = json.dumps({"kubernetes_node_rejoin_expired": asked, **variables})
        program = str(Path(sys.prefix) / "bin/ansible-playbook")
        return self.run(program, "-i", str(hosts), str(play), "-e", extra, *options, check=check)

    def client(self) -> str:
        """By which certificate the kubelet speaks."""
        return self.place(str(self.place(CURRENT).readlink())).read_text()


def kubeconfig(authority: str, certificate: str) -> str:
    """Of a user whose certificate and key are in a file."""
    data = base64.b64encode(authority.encode()).decode()
    return f"""apiVersion: v1
kind: Config
clusters:
- name: kubernetes
  cluster:
    certificate-authority-data: {data}
    server: {API}
contexts: [{{name: it, context: {{cluster: kubernetes, user: it}}}}]
current-context: it
users:
- name: it
  user:
    client-certificate: {certificate}
    client-key: {certificate}
"""


def programs() -> str:
    """Folders of what the lab compiles for its machines."""

    def none() -> Path:
        raise AssertionError("none of them is a cgo program")

    store = Store(cache_dir() / "artifacts")
    with store.lock():
        found = [
            golang.build(store, component, none, "")
            for component in COMPONENTS
            if component.name in ("containerd", "etcd", "kubernetes")
        ]
    return ":".join(map(str, found))


def files(authority: Authority) -> dict[str, str]:
    """Of a control plane, and of a node that was off for a month too long."""
    admin, expired = "/etc/kubernetes/admin.pem", "/var/lib/kubelet/pki/kubelet-client-2025.pem"
    signer = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    trusted = authority.certificate
    public = serialization.PublicFormat.SubjectPublicKeyInfo
    return {
        "/etc/kubernetes/pki/ca.crt": trusted,
        "/etc/kubernetes/pki/ca.key": pem(authority.key),
        "/etc/kubernetes/pki/api.pem": authority.issue("kubernetes", "kube-apiserver", DAY),
        "/etc/kubernetes/pki/sa.key": pem(signer),
        "/etc/kubernetes/pki/sa.pub": signer.public_key()
        .public_bytes(serialization.Encoding.PEM, public)
        .decode(),
        admin: authority.issue("system:masters", "admin", DAY),
        "/etc/kubernetes/admin.conf": kubeconfig(trusted, admin),
        expired: authority.issue("system:nodes", "system:node:gpu-1", -30 * DAY),
        "/etc/kubernetes/kubelet.conf": kubeconfig(trusted, CURRENT),
        "/etc/kubernetes/kubelet.yaml": yaml.safe_dump(KUBELET),
    }


def control_plane(cluster: Cluster) -> None:
    """Start a control plane that answers, with the rights that kubeadm gives."""
    pki = "/etc/kubernetes/pki"
    cluster.start("etcd", "--data-dir", "/run/etcd")
    cluster.start(
        "kube-apiserver",
        "--etcd-servers=http://127.0.0.1:2379",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--tls-cert-file={pki}/api.pem",
        f"--tls-private-key-file={pki}/api.pem",
        f"--client-ca-file={pki}/ca.crt",
        f"--service-account-key-file={pki}/sa.pub",
        f"--service-account-signing-key-file={pki}/sa.key",
        "--service-account-issuer=https://kubernetes",
        "--service-cluster-ip-range=10.9.0.0/16",
        "--authorization-mode=Node,RBAC",
        "--enable-bootstrap-token-auth",
    )
    cluster.wait("the API server answers", "kubectl", "get", "--raw", "/readyz", says="ok")
    cluster.start(
        "kube-controller-manager",
        "--kubeconfig=/etc/kubernetes/admin.conf",
        f"--cluster-signing-cert-file={pki}/ca.crt",
        f"--cluster-signing-key-file={pki}/ca.key",
        "--controllers=csrapproving,csrsigning",
        "--leader-elect=false",
    )
    for name, role in ROLES.items():
        cluster.run("kubectl", "create", "clusterrolebinding", name, f"--clusterrole={role}", GROUP)
    data = cluster.place("/etc/kubernetes/admin.conf").read_text()
    cluster.run(
        "kubectl",
        "-n",
        "kube-public",
        "create",
        "configmap",
        "cluster-info",
        f"--from-literal=kubeconfig={data}",
    )


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    if os.geteuid() != 0:
        pytest.skip("namespaces with mounts of their own need root")
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "systemctl").write_text(SYSTEMCTL)
    (tools / "systemctl").chmod(0o755)
    path = f"{tools}:{programs()}:{os.environ['PATH']}"
    command = [
        "unshare",
        "--mount",
        "--net",
        "--pid",
        "--fork",
        "--kill-child",
        "--propagation",
        "private",
        "--",
    ]
    with subprocess.Popen([*command, "sh", "-c", ENTER], stdout=subprocess.PIPE, text=True) as outer:
        try:
            assert outer.stdout is not None
            assert outer.stdout.readline() == "ready\n"
            children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text()
            made = Cluster(int(children.split()[0]), path, tmp_path)
            made.put(files(Authority()))
            made.place(CURRENT).symlink_to("/var/lib/kubelet/pki/kubelet-client-2025.pem")
            made.start("containerd")
            control_plane(made)
            yield made
        finally:
            outer.kill()


def test_a_kubelet_whose_certificate_has_expired_is_let_in_again(cluster: Cluster) -> None:
    conf, old = cluster.place("/etc/kubernetes/kubelet.conf"), cluster.client()
    before = conf.read_text()
    cluster.run("systemctl", "restart", "kubelet.service")
    cluster.wait("the kubelet is a stranger", "cat", "/run/kubelet.log", says="certificate")
    # Only where it is asked for.
    assert "changed=0" in cluster.play(False)
    assert "Renew | Tell what would change" in cluster.play(True, "--check")
    assert (cluster.client(), conf.read_text()) == (old, before)
    assert "changed=5" in cluster.play(True)
    assert cluster.client() != old
    cluster.wait("the node is Ready", "kubectl", "get", "nodes", says=" Ready ")
    # It is itself, and nobody keeps what let it in.
    whoami = ["kubectl", "--kubeconfig=/etc/kubernetes/kubelet.conf", "auth", "whoami"]
    assert "system:node:gpu-1" in cluster.run(*whoami)
    assert not cluster.place("/etc/kubernetes/bootstrap-kubelet.conf").exists()
    assert "bootstrap-token" not in cluster.run("kubectl", "-n", "kube-system", "get", "secrets")
    # A second run has nothing to do.
    assert "changed=0" in cluster.play(True)


def test_a_kubelet_that_gets_no_certificate_is_told_and_can_be_tried_again(cluster: Cluster) -> None:
    old = cluster.client()
    cluster.run("kubectl", "delete", "clusterrolebinding", "bootstrap")
    told = cluster.play(True, check=False)
    assert "its kubelet has got no new certificate" in told
    assert cluster.client() == old
    assert not cluster.place("/etc/kubernetes/bootstrap-kubelet.conf").exists()
    assert "bootstrap-token" not in cluster.run("kubectl", "-n", "kube-system", "get", "secrets")
    cluster.run(
        "kubectl", "create", "clusterrolebinding", "bootstrap", f"--clusterrole={ROLES['bootstrap']}", GROUP
    )
    assert "failed=0" in cluster.play(True)
    assert cluster.client() != old
