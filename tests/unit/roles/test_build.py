"""The driver's module is built for a kernel that has none, and nobody else's, on the Ansible that runs here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import yaml

from gpusmith.paths import repo_root

BUILD = repo_root() / "roles/nvidia_driver/tasks/build.yml"
NAME = "nvidia-srv"
STATUS = f"""zfs/2.1.11, 6.1.0-40-amd64, x86_64: installed
nvidia-fs/2.26.6, 6.1.0-40-amd64, x86_64: installed
{NAME}/580.178.04, 6.1.0-40-amd64, x86_64: installed
"""
DKMS = """#!/bin/sh
echo "$*" >> "$NOTES"
[ "$1" = status ] && cat "$NOTES.status"
[ "$1" != autoinstall ]
"""


def test_only_the_drivers_own_module_is_built(tmp_path: Path) -> None:
    # The first and the last task take a node's record.
    written = yaml.safe_load(BUILD.read_text())
    assert "'state': 'allowed'" in written[0]["gpusmith.gpu.driver_build"]
    assert "include_role" in " ".join(written[-1])
    tasks = yaml.safe_dump(written[1:-1], sort_keys=False)
    plan = {"module_version": "580.178.04", "unbuilt": ["6.1.0-41-amd64"], "damaged": ["6.1.0-40-amd64"]}
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars": {"ansible_python_interpreter": sys.executable, "__nvidia_driver_plan": plan},
        "tasks": [{"ansible.builtin.import_tasks": "build.yml"}],
    }
    (tmp_path / "ansible.cfg").touch()
    (tmp_path / "build.yml").write_text(tasks)
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    (tmp_path / "notes.status").write_text(STATUS)
    (tmp_path / "dkms").write_text(DKMS)
    (tmp_path / "dkms").chmod(0o755)
    environment = {
        **os.environ,
        "NOTES": str(tmp_path / "notes"),
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg"),
    }
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    done = subprocess.run(
        [program, "play.yml"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "notes").read_text().splitlines() == [
        "status",
        f"install -m {NAME} -v 580.178.04 -k 6.1.0-41-amd64",
        f"install --force -m {NAME} -v 580.178.04 -k 6.1.0-40-amd64",
    ]
