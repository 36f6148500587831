"""The plays in the READMEs of roles: each calls its role with what the guard lets pass, and Ansible can read it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from gpusmith.paths import repo_root
from tests.unit.frame.test_role_examples import ROLES, text_of


def test_ansible_reads_all_examples(tmp_path: Path) -> None:
    for role in ROLES:
        (tmp_path / f"{role.name}.yml").write_text(text_of(role))
    (tmp_path / "ansible.cfg").touch()
    program = Path(sys.executable).with_name("ansible-playbook")
    inventory = repo_root() / "inventory/example/hosts.yml"
    done = subprocess.run(
        [str(program), "-i", str(inventory), "--syntax-check", *(f"{role.name}.yml" for role in ROLES)],
        cwd=tmp_path,
        env={**os.environ, "ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert {f"playbook: {role.name}.yml" for role in ROLES} <= set(done.stdout.splitlines())
