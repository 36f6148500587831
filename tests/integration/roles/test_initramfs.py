"""The initial RAM disk is renewed by the first program that the system has, and by no other, on the Ansible that runs here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gpusmith.paths import repo_root

HANDLERS = repo_root() / "roles/nvidia_driver/handlers/main.yml"
INSTALL = repo_root() / "roles/nvidia_driver/tasks/install.yml"


@pytest.mark.parametrize(("there", "ran"), [((), []), (("second", "third"), ["second"])])
def test_the_first_program_that_is_there_renews_it(
    tmp_path: Path, there: tuple[str, ...], ran: list[str]
) -> None:
    tools = [
        {"program": str(tmp_path / name), "argv": ["touch", str(tmp_path / f"{name}.ran")]}
        for name in ("first", "second", "third")
    ]
    for name in there:
        (tmp_path / name).touch()
    (handler,) = yaml.safe_load(HANDLERS.read_text())
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars": {"ansible_python_interpreter": sys.executable, "__nvidia_driver_initramfs": tools},
        "tasks": [handler],
    }
    (tmp_path / "ansible.cfg").touch()
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    done = subprocess.run(
        [str(Path(sys.executable).with_name("ansible-playbook")), "play.yml"],
        cwd=tmp_path,
        env={**os.environ, "ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(path.stem for path in tmp_path.glob("*.ran")) == ran
    assert f"changed={len(ran)}" in done.stdout


def test_it_is_renewed_before_packages_can_fail() -> None:
    """The next run would find the files as they should be, and renew nothing."""
    tasks = yaml.safe_load(INSTALL.read_text())
    (renewal,) = [n for n, task in enumerate(tasks) if task.get("ansible.builtin.meta") == "flush_handlers"]
    written = [n for n, task in enumerate(tasks) if "notify" in task]
    assert max(written) < renewal
    assert all("gpusmith.gpu.packages" not in str(task) for task in tasks[: renewal + 1])
