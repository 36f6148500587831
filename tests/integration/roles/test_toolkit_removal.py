"""Which settings of the container toolkit a removal takes, on the Ansible that runs here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from gpusmith.paths import repo_root
from tests.integration.plugins.plays import play
from tests.integration.plugins.test_driver_version import HERE

ROLE = repo_root() / "roles/nvidia_container_toolkit"
TASKS = ("Remove our files", "settings that the site had", "Put them back")
OURS, SITE = "# Written by gpusmith (role nvidia_container_toolkit)\n", 'log-level = "debug"\n'


def removed(folder: Path) -> int:
    """A removal, of what it takes of files; how many tasks changed something."""
    settings = folder / "config.toml"
    names = yaml.safe_load((ROLE / "vars/main.yml").read_text())
    names |= {
        "__nvidia_container_toolkit_settings_path": str(settings),
        "__nvidia_container_toolkit_unit_path": f"{folder}/unit",
        "__nvidia_container_toolkit_default_spec": f"{folder}/default.yaml",
        "nvidia_container_toolkit_cdi_spec": f"{folder}/nvidia.yaml",
    }
    marked = [str(settings)] if settings.exists() and settings.read_text() == OURS else []
    record = {"node_record_now": {"record": {"marked_files": marked}}}
    tasks = yaml.safe_load((ROLE / "tasks/remove.yml").read_text())
    content = {
        "tasks": [task for task in tasks if any(part in task["name"] for part in TASKS)],
        "vars": names,
    }
    status, output = play(folder, {"gpu-1": {**HERE, **record}}, content)
    assert status == 0, output
    return int(re.search(r"changed=(\d+)", output)[1])  # type: ignore[index]


@pytest.mark.parametrize("former", [SITE, None], ids=["with", "without"])
def test_ours_go_and_those_that_a_site_had_come_back_and_stay(tmp_path: Path, former: str | None) -> None:
    settings = tmp_path / "config.toml"
    settings.write_text(OURS)
    if former:
        settings.with_name("config.toml.before-gpusmith").write_text(former)
    for changed in (True, False):
        assert bool(removed(tmp_path)) is changed
        assert (settings.read_text() if settings.exists() else None) == former
        assert not list(tmp_path.glob("*.before-gpusmith"))


def test_those_of_a_toolkit_that_others_configure_stay(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(SITE)
    assert removed(tmp_path) == 0
    assert (tmp_path / "config.toml").read_text() == SITE
