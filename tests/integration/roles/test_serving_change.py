"""Nodes that serve are changed one after another, and none after one that failed, on the Ansible that runs here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusmith.paths import repo_root

ROLE = repo_root() / "roles/serving_change/tasks"
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - name: Change
      ansible.builtin.include_role:
        name: serving_change
        tasks_from: "{{ 'main' if turn else 'at_once' }}"
      vars: {__serving_change_role: subject}
      loop: "{{ turns }}"
      loop_control: {loop_var: turn}
    - name: Next
      ansible.builtin.debug: {msg: next}
"""
ASKED = '__serving_change_asked: {host: "{{ inventory_hostname }}", touched: "{{ touched }}"}\n'
# The module of the same name, without a node: it notes what it is asked to do.
NOTE = """#!/usr/bin/python
import os
from ansible.module_utils.basic import AnsibleModule
spec = {"state": {}, "reason": {"default": ""}, "host": {}, "fail": {"type": "bool"}, "touched": {"type": "bool"}}
module = AnsibleModule(argument_spec=spec)
asked = module.params
with open(os.environ["NOTES"], "a") as notes:
    notes.write("%s %s\\n" % (asked["host"], asked["state"]))
if asked["state"] == "taken_back":
    module.fail_json(msg="why: " + asked["reason"], outcome="taken back" if asked["touched"] else "nothing changed")
if asked["fail"]:
    module.fail_json(msg="broken")
module.exit_json(changed=True, outcome=asked["state"])
"""


def tasks(name: str) -> str:
    """The role's own tasks, with another module in the place of those that need a node."""
    text = (ROLE / name).read_text().replace("gpusmith.gpu.serving_change:", "note:")
    assert "note:" in text or name != "main.yml"
    return re.sub(r"(?ms)^# The record.*", "", text)


def stopped_by() -> str:
    """The role's own word on whose change is open."""
    text = (ROLE.parent / "vars/main.yml").read_text()
    return text[text.index("__serving_change_stopped_by") :]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for path, text in {
        "play.yml": PLAY,
        "ansible.cfg": "[defaults]\ninterpreter_python = auto_silent\n",
        "library/note.py": NOTE,
        "roles/serving_change/tasks/main.yml": tasks("main.yml"),
        "roles/serving_change/tasks/at_once.yml": tasks("at_once.yml"),
        "roles/serving_change/vars/main.yml": ASKED + stopped_by(),
        "roles/subject/tasks/apply.yml": (
            '- note: {state: apply, host: "{{ inventory_hostname }}", fail: "{{ inventory_hostname in bad.split() }}"}\n'
            '- note: {state: applied, host: "{{ inventory_hostname }}"}\n'
            "  vars: {ansible_connection: ssh}\n  when: inventory_hostname == gone\n"
        ),
    }.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    hosts: dict[str, Any] = {name: {"turns": [{"node": name}]} for name in "abc"}
    hosts |= {"bare-1": {"turns": [{}]}, "bare-2": {"turns": [{}]}, "converged": {"turns": []}}
    group = {"hosts": hosts, "vars": {"ansible_connection": "local", "bad": "", "gone": "", "touched": True}}
    group["vars"]["ansible_python_interpreter"] = sys.executable
    # Nobody listens there.
    group["vars"] |= {"ansible_host": "127.0.0.1", "ansible_port": 9}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": group}))
    return tmp_path


def run(project: Path, **extra: str) -> tuple[int, list[str], str]:
    words = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", "hosts.yml", "play.yml"]
    for name, value in extra.items():
        words += ["-e", f"{name}={value}"]
    environment = {
        **os.environ,
        "NOTES": str(project / "notes"),
        "ANSIBLE_CONFIG": str(project / "ansible.cfg"),
    }
    done = subprocess.run(
        words, cwd=project, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    return done.returncode, (project / "notes").read_text().splitlines(), done.stdout + done.stderr


def of_serving(notes: list[str]) -> list[str]:
    return [line for line in notes if line[0] in "abc" and line[1] == " "]


def test_a_node_is_proved_before_the_next_ones_turn(project: Path) -> None:
    status, notes, output = run(project, bad="b bare-1", touched="false")
    lines = of_serving(notes)
    order = [lines[place].split()[0] for place in (0, 3, 6)]
    assert sorted(order) == ["a", "b", "c"], output
    # One that failed before it changed anything stops itself only.
    last = {"a": "proved", "b": "taken_back", "c": "proved"}
    assert lines == [f"{name} {state}" for name in order for state in ("begun", "apply", last[name])]
    # Machines that have not joined take it at once, and one that fails stops itself only.
    assert sorted(line for line in notes if "bare" in line) == ["bare-1 apply", "bare-2 apply"]
    assert status != 0
    assert not any("converged" in line for line in notes)


@pytest.mark.parametrize("kind", ["bad", "gone"])
def test_no_node_that_serves_is_touched_after_one_that_failed(project: Path, kind: str) -> None:
    status, notes, output = run(project, **{kind: "b"})
    assert status != 0
    lines = of_serving(notes)
    ending = ["b begun", "b apply", *(["b taken_back"] if kind == "bad" else [])]
    assert lines[-len(ending) :] == ending, output
    later = {"a", "c"} - {line[0] for line in lines}
    for name in later:
        assert (
            f"Node '{name}' was not changed, because the change of 'b' failed or could not be verified."
            in output
        )
    assert {f"{name} proved" for name in {"a", "c"} - later} <= set(lines)
    # New machines are none of those that serve.
    assert sorted(line for line in notes if "bare" in line) == ["bare-1 apply", "bare-2 apply"]
    if kind == "bad":
        assert "why: broken" in output
