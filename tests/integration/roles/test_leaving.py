"""What a machine keeps that leaves its cluster, on the Ansible that runs here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gpusmith.paths import repo_root

ROLE = repo_root() / "roles/kubernetes_node"
TASKS = ("when the machine joined", "cluster's pod network configured", "Remove our files")
"""Those that look and remove files; the others need a cluster."""
JOINED = 1_000_000.0
OWN = {"87-podman-bridge.conflist": JOINED - 10, "note.txt": JOINED + 10}
NETWORK = {"10-calico.conflist": JOINED + 10, "15-other.conf": JOINED + 20}


def write(path: Path, when: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    os.utime(path, (when, when))


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    for name, when in {**OWN, **NETWORK}.items():
        write(tmp_path / "net.d" / name, when)
    write(tmp_path / "pki/ca.crt", JOINED)
    for name in ("gpusmith-node.conf", "10-site.conf"):
        write(tmp_path / "kubelet.conf.d" / name, JOINED)
    for name in ("99-kubelet.conf", "50-site.conf"):
        write(tmp_path / "logind.conf.d" / name, JOINED)
    for name in ("kubelet", "ssh"):
        (tmp_path / "wants").mkdir(exist_ok=True)
        (tmp_path / f"wants/{name}.service").symlink_to(f"/usr/lib/systemd/system/{name}.service")
    tasks = yaml.safe_load((ROLE / "tasks/remove.yml").read_text())
    names = yaml.safe_load((ROLE / "vars/main.yml").read_text())
    names |= {
        "__kubernetes_node_authority": f"{tmp_path}/pki/ca.crt",
        "__kubernetes_node_network_folder": f"{tmp_path}/net.d",
        "__kubernetes_node_kubelet_folder": f"{tmp_path}/kubelet.conf.d",
        "__kubernetes_node_join_file": f"{tmp_path}/join.yaml",
        "__kubernetes_node_shutdown_file": f"{tmp_path}/logind.conf.d/99-kubelet.conf",
        "__kubernetes_node_boot_link": f"{tmp_path}/wants/kubelet.service",
    }
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars": {**names, "ansible_python_interpreter": sys.executable},
        "tasks": [task for task in tasks if any(part in task["name"] for part in TASKS)],
    }
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    return tmp_path


def test_only_what_the_pod_network_and_we_wrote_goes(machine: Path) -> None:
    words = [str(Path(sys.executable).with_name("ansible-playbook")), "play.yml"]
    done = subprocess.run(words, cwd=machine, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    there = {path.name for path in (machine / "net.d").iterdir()}
    assert there == {*OWN, *(f"{name}.before-gpusmith-removal" for name in NETWORK)}
    assert [path.name for path in (machine / "kubelet.conf.d").iterdir()] == ["10-site.conf"]
    assert [path.name for path in (machine / "logind.conf.d").iterdir()] == ["50-site.conf"]
    assert [path.name for path in (machine / "wants").iterdir()] == ["ssh.service"]
