"""A node trusts only the API server whose authority kubeadm named on the control plane."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from gpusmith.paths import repo_root

ROLE = repo_root() / "roles/kubernetes_node"
TOKEN = "abcdef.0123456789abcdef"
# Of the authority's public key, as kubeadm prints it: gpusmith works none out itself.
PIN = f"sha256:{'5e' * 32}"
JOIN = f"kubeadm join 10.0.0.1:6443 --token {TOKEN}"


def write(name: str, folder: Path, printed: str) -> str:
    """Have the Ansible that runs here write a file of the role. What it said."""
    settings = {
        "ansible_python_interpreter": sys.executable,
        "kubernetes_node_control_plane_endpoint": "control-1.example.com:6443",
        "kubernetes_node_ignored_preflight_errors": [],
        "__kubernetes_node_kubelet_folder": "/etc/kubernetes/kubelet.conf.d",
        "__kubernetes_node_startup_taint": "gpusmith.io/unvalidated",
        "__kubernetes_node_token": {"stdout": printed},
    }
    task = {"src": str(ROLE / "templates" / f"{name}.j2"), "dest": str(folder / name), "mode": "0600"}
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars": settings,
        "tasks": [{"ansible.builtin.template": task}],
    }
    (folder / "ansible.cfg").touch()
    (folder / "play.yml").write_text(yaml.safe_dump([play]))
    done = subprocess.run(
        [str(Path(sys.executable).with_name("ansible-playbook")), "play.yml"],
        cwd=folder,
        env={**os.environ, "ANSIBLE_CONFIG": str(folder / "ansible.cfg")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return " ".join((done.stdout + done.stderr).split())


def written(name: str, folder: Path) -> Any:
    """What a file of the role says, with the output of 'kubeadm token create --print-join-command', which ends with a blank."""
    said = write(name, folder, f"{JOIN} --discovery-token-ca-cert-hash {PIN} ")
    assert (folder / name).exists(), said
    return yaml.safe_load((folder / name).read_text())


def test_a_join_names_the_authority_by_the_hash_of_its_key(tmp_path: Path) -> None:
    # The whole of it: with 'unsafeSkipCAVerification' kubeadm would take any server for the cluster's.
    assert written("join.yaml", tmp_path)["discovery"] == {
        "bootstrapToken": {
            "apiServerEndpoint": "control-1.example.com:6443",
            "token": TOKEN,
            "caCertHashes": [PIN],
        }
    }


def test_without_a_hash_there_is_no_join(tmp_path: Path) -> None:
    said = write("join.yaml", tmp_path, f"{JOIN} --discovery-token-unsafe-skip-ca-verification")
    assert "failed=1" in said, said
    assert not (tmp_path / "join.yaml").exists()


def test_nothing_of_the_role_turns_verification_off() -> None:
    files = [
        path for path in ROLE.rglob("*") if path.suffix in (".yml", ".j2") and path.parent.name != "meta"
    ]
    assert len(files) > 10
    for path in files:
        assert not re.search(r"unsafe|insecure|skip-tls", path.read_text(), re.IGNORECASE), path
