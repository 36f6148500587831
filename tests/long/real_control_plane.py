"""Real programs of Kubernetes, a control plane and a kubelet, in namespaces of their own. Needs root, and no lab."""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import os
import subprocess
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
from gpulab.artifacts.components import component
from gpulab.artifacts.store import Store

from gpusmith.paths import cache_dir, repo_root

DAY = dt.timedelta(days=1)
LOCAL = ipaddress.IPv4Address("127.0.0.1")
API = "https://127.0.0.1:6443"
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
    "cgroupDriver": "cgroupfs",
    "failCgroupV1": False,
    "failSwapOn": False,
    "cgroupsPerQOS": False,
    "enforceNodeAllocatable": [],
    "localStorageCapacityIsolation": False,
}


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


def programs(*names: str) -> str:
    """Folders of what is compiled of these components, none of which is a cgo program."""

    def none() -> Path:
        raise AssertionError("none of them is a cgo program")

    store = Store(cache_dir() / "artifacts")
    with store.lock():
        found = [golang.build(store, component(name), none, "") for name in names]
    return ":".join(map(str, found))


def files(authority: Authority) -> dict[str, str]:
    """Of a control plane and of a node."""
    admin, client = "/etc/kubernetes/admin.pem", "/var/lib/kubelet/pki/kubelet-client-current.pem"
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
        client: authority.issue("system:nodes", "system:node:gpu-1", DAY),
        "/etc/kubernetes/kubelet.conf": kubeconfig(trusted, client),
        "/etc/kubernetes/kubelet.yaml": yaml.safe_dump(KUBELET),
    }


def kubelet(cluster: Cluster) -> None:
    """Start the kubelet of node gpu-1."""
    cluster.start(
        "kubelet",
        "--kubeconfig=/etc/kubernetes/kubelet.conf",
        "--config=/etc/kubernetes/kubelet.yaml",
        "--hostname-override=gpu-1",
    )


def control_plane(cluster: Cluster) -> None:
    """Start a control plane that answers."""
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
    )
    cluster.wait("the API server answers", "kubectl", "get", "--raw", "/readyz", says="ok")
    cluster.wait("there is a place for its name", "kubectl", "get", "namespaces", says="kube-public")
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
    path = f"{programs('containerd', 'etcd', 'kubernetes')}:{os.environ['PATH']}"
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
            made.start("containerd")
            control_plane(made)
            yield made
        finally:
            outer.kill()
