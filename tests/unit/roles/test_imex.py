"""The tasks of an IMEX domain, in a real play in check mode, on a machine that has neither the folder nor the service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from gpusmith.paths import repo_root
from gpusmith.probe.managed import IMEX_NODES, IMEX_WRITTEN
from tests.unit.expect.converged import converged_record
from tests.unit.hosts import DOMAIN, VERSION
from tests.unit.plugins.plays import play
from tests.unit.plugins.test_driver_version import DEBIAN, HERE

PATH = repo_root() / "roles/nvidia_driver/tasks/imex.yml"


def ran(folder: Path, record: dict[str, Any], nodes: list[str]) -> str:
    """What a play with these tasks says of them."""
    include = {"name": "gpusmith.gpu.nvidia_driver", "tasks_from": "imex", "rolespec_validate": False}
    values = {
        "ansible_facts": DEBIAN,
        "nvidia_driver_version": VERSION,
        "nvidia_driver_components": ["imex"],
        "nvidia_driver_imex_nodes": nodes,
    }
    hosts = {"gpu-1": {**HERE, "node_record_now": {"record": record}}}
    tasks = [{"ansible.builtin.include_role": include, "vars": values}]
    status, output = play(folder, hosts, {"tasks": tasks}, "--check", "--diff")
    assert status == 0, output
    return output


def test_a_new_domain_is_written_one_address_a_line(tmp_path: Path) -> None:
    record = converged_record()
    for path in (IMEX_NODES, IMEX_WRITTEN):
        del record["managed_files"][path]
    record["services"]["nvidia-imex"].update(active="inactive", enabled="disabled")
    output = ran(tmp_path, record, list(DOMAIN))
    for path in (IMEX_NODES, IMEX_WRITTEN):
        assert path in output
    assert "".join(f"+{node}\n" for node in DOMAIN) in output


def test_a_domain_as_wanted_is_not_touched(tmp_path: Path) -> None:
    assert "changed=0" in ran(tmp_path, converged_record(), list(DOMAIN))


def test_the_service_is_down_everywhere_before_any_list_changes() -> None:
    tasks = yaml.safe_load(PATH.read_text())
    modules = [next(key for key in task if "." in key) for task in tasks]
    stops = modules.index("ansible.builtin.systemd_service")
    writes = modules.index("ansible.builtin.copy")
    starts = modules.index("ansible.builtin.include_role")
    assert stops < writes < starts
    assert tasks[stops]["ansible.builtin.systemd_service"]["state"] == "stopped"
    # A task of its own on all hosts: in a block or an included file, one host would come to its end before the next begins.
    assert not any("block" in task for task in tasks)
