"""A join that would get no token is refused before anything is changed, on the Ansible that runs here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusmith.paths import repo_root

TASKS = repo_root() / "roles/kubernetes_node/tasks/token.yml"
# In place of the program: what it says without an API server.
KUBEADM = """#!/bin/sh
[ "$*" = "token list --kubeconfig {kubeconfig} -o jsonpath={{.kind}}" ] || exit 3
{does}
"""
REFUSED = "failed to list bootstrap tokens: connection refused"


def run(folder: Path, does: str, **variables: Any) -> str:
    """What the tasks say, with control planes of which the second one is off."""
    kubeconfig = str(folder / "admin.conf")
    program = folder / "kubeadm"
    program.write_text(KUBEADM.format(kubeconfig=kubeconfig, does=does))
    program.chmod(0o755)
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    off = {"ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_ssh_retries": 0}
    hosts = {"gpu-1": local, "gpu-2": local, "cp-1": local, "cp-2": off}
    settings = {
        "node_record_now": {"record": {"kubernetes": {"joined": False}}},
        "kubernetes_node_token_host": "cp-1",
        "kubernetes_node_token_kubeconfig": kubeconfig,
        **variables,
    }
    play = {
        "hosts": "gpu-1:gpu-2",
        "gather_facts": False,
        "vars": settings,
        "tasks": [
            {"ansible.builtin.import_tasks": str(TASKS)},
            {"name": "Change something", "ansible.builtin.debug": {"msg": "changed"}},
        ],
    }
    (folder / "ansible.cfg").touch()
    (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
    (folder / "play.yml").write_text(yaml.safe_dump([play]))
    done = subprocess.run(
        [str(Path(sys.executable).with_name("ansible-playbook")), "-i", "hosts.yml", "play.yml"],
        cwd=folder,
        env={
            **os.environ,
            "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
            "PATH": f"{folder}:{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return " ".join((done.stdout + done.stderr).split())


def test_a_host_that_makes_tokens_lets_the_run_go_on(tmp_path: Path) -> None:
    assert run(tmp_path, "exit 0").count('"msg": "changed"') == 2


@pytest.mark.parametrize(
    ("does", "host", "words"),
    [
        ("exit 0", "cp-2", "made on 'cp-2' ('kubernetes_node_token_host'), and that host does not answer"),
        (f"echo {REFUSED} >&2; exit 1", "cp-1", f"fails there: {REFUSED}."),
    ],
)
def test_a_host_that_makes_none_ends_the_run_with_what_to_do(
    tmp_path: Path, does: str, host: str, words: str
) -> None:
    said = run(tmp_path, does, kubernetes_node_token_host=host)
    assert words in said, said
    assert "set 'kubernetes_node_token_host' to another control plane host" in said
    assert '"msg": "changed"' not in said


def test_nodes_that_have_joined_need_none(tmp_path: Path) -> None:
    joined = {"record": {"kubernetes": {"joined": True}}}
    said = run(tmp_path, "exit 1", kubernetes_node_token_host="cp-2", node_record_now=joined)
    assert said.count('"msg": "changed"') == 2
