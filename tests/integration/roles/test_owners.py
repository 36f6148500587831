"""Variables of roles that go by what another role does, on hosts where that one leaves its part to somebody else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpusmith.paths import repo_root
from tests.integration.plugins.plays import play

HERE = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}


def said(folder: Path, role: str, variable: str, hosts: dict[str, dict[str, Any]]) -> str:
    """What a play prints of a role's variable, for each host."""
    tasks = [{"ansible.builtin.debug": {"msg": f"{{{{ inventory_hostname }}}}: {{{{ {variable} }}}}"}}]
    file = str(repo_root() / "roles" / role / "vars" / "main.yml")
    rows = {name: {**HERE, **row} for name, row in hosts.items()}
    status, output = play(folder, rows, {"vars_files": [file], "tasks": tasks})
    assert status == 0, output
    return output


def test_nobody_adds_the_repository_of_a_driver_of_others(tmp_path: Path) -> None:
    one = {"uris": ["https://repo.example/cuda"]}
    both: dict[str, Any] = {"nvidia_driver_repository": one, "cuda_toolkit_repository": one}
    hosts = {"ours": both, "theirs": {**both, "nvidia_driver_owner": "existing"}}
    output = said(tmp_path, "cuda_toolkit", "__cuda_toolkit_own_repository", hosts)
    assert "ours: False" in output
    assert "theirs: True" in output


def test_what_a_toolkit_of_others_accepts_of_their_device_plugin_is_not_refused(tmp_path: Path) -> None:
    theirs = {"nvidia_container_toolkit_owner": "existing"}
    variable = "__gpu_operands_accepted | join(' ')"
    assert "a: envvar volume-mounts" in said(tmp_path, "gpu_operands", variable, {"a": theirs})
    # One task asks for all nodes of a run.
    output = said(tmp_path, "gpu_operands", variable, {"a": theirs, "b": {}})
    assert "a: envvar" not in output
