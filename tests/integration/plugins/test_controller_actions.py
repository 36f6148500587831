"""Action plugins of the controller: they take what their documentation says, connect to no host, and fail in words."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from gpusmith.paths import repo_root

TASKS: list[dict[str, Any]] = [
    {"gpusmith.gpu.allocatable_wait": {"kubeconfig": "/nowhere/k", "hosts": ["a"]}},
    {"gpusmith.gpu.node_removal": {"kubeconfig": "/nowhere/k", "name": "a", "state": "empty"}},
    {"gpusmith.gpu.operands": {"kubeconfig": "/nowhere/k", "objects": [], "state": "gone"}},
    {
        "gpusmith.gpu.validation_run": {
            "suite": "/nowhere/s", "inventory": "i", "limit": ["a"], "report_dir": "/nowhere", "log": "l",
        }
    },
]  # fmt: skip


def test_they_fail_in_words_for_a_host_that_nobody_can_connect_to(tmp_path: Path) -> None:
    tasks = [{**task, "name": str(n), "ignore_errors": True} for n, task in enumerate(TASKS)]
    (tmp_path / "play.yml").write_text(
        yaml.safe_dump([{"name": "P", "hosts": "all", "gather_facts": False, "tasks": tasks}])
    )
    (tmp_path / "hosts.yml").write_text(
        yaml.safe_dump({"all": {"hosts": {"a": {"ansible_host": "127.0.0.1", "ansible_port": 1}}}})
    )
    environment = {**os.environ, "NO_COLOR": "1", "ANSIBLE_CONFIG": str(repo_root() / "ansible.cfg")}
    program = Path(sys.executable).parent / "ansible-playbook"
    command = [str(program), "-i", str(tmp_path / "hosts.yml"), str(tmp_path / "play.yml")]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path
    )
    output = " ".join((done.stdout + done.stderr).split())
    assert "Traceback" not in output
    assert "unreachable=0" in output, output
    assert f"ignored={len(TASKS)}" in output, output
    assert output.count("FAILED! Kubeconfig '/nowhere/k' does not exist. Set 'gpusmith_kubeconfig'") == 2, (
        output
    )
    assert "value of state must be one of: present, absent, got: gone" in output
    assert (
        "FAILED! The validation suite '/nowhere/s' does not exist. Install package 'gpusmith' again" in output
    )
