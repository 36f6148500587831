"""Playbooks with inventories that cannot be used: refused by name, before any host is connected to."""

from __future__ import annotations

import yaml

from gpusmith.paths import repo_root


def test_every_role_of_site_has_its_tag() -> None:
    guard, _look, work = yaml.safe_load((repo_root() / "playbooks" / "provision_nodes.yml").read_text())[:3]
    tagged = {
        tag
        for task in work["tasks"]
        if (name := task.get("ansible.builtin.import_role", {}).get("name", ""))
        and (tag := name.rpartition(".")[2])
    }
    assert all(task.get("tags") for task in work["tasks"])
    assert {tag for task in work["tasks"] for tag in task["tags"]} >= tagged
    assert set(guard["vars"]["__guard_tags"]) == {tag for task in work["tasks"] for tag in task["tags"]} | {
        "preflight"
    }


def test_every_playbook_imports_the_guard_first() -> None:
    folder = repo_root() / "playbooks"
    (play,) = yaml.safe_load((folder / "guard.yml").read_text())
    # No host is left out; without any, tests/integration/plugins/test_guard_action.py sees it fail.
    assert play["hosts"].startswith("{{ 'all:localhost' if groups['all']")
    assert play["tasks"][0]["run_once"] is True
    # The first host's connection variables may be what it has to name.
    assert play["tasks"][0]["delegate_to"] == "localhost"
    for path in sorted(folder.glob("*.yml")):
        if path.name != "guard.yml":
            assert yaml.safe_load(path.read_text())[0]["ansible.builtin.import_playbook"] == "guard.yml", path
