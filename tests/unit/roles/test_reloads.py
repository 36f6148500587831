"""systemd is never asked to read all units anew where pods may run: that takes GPUs from running containers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jinja2.nativetypes import NativeEnvironment

from gpusmith.paths import repo_root

ROLES = repo_root() / "roles"
START = ROLES / "serving_change/tasks/start.yml"
SYSTEMD = ("ansible.builtin.systemd_service", "ansible.builtin.systemd", "ansible.builtin.service")
COMMANDS = ("ansible.builtin.command", "ansible.builtin.shell")
NOT_JOINED = (
    "not (__kubernetes_node_joined | bool or ansible_check_mode)",
    "not (node_record_now.record.kubernetes.joined or ansible_check_mode)",
)


def flat(tasks: Any) -> Iterator[dict[str, Any]]:
    for task in tasks or []:
        yield task
        for part in ("block", "rescue", "always"):
            yield from flat(task.get(part))


def of_files() -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in sorted(ROLES.glob("*/tasks/*.yml")):
        # A machine whose parts are removed serves nobody.
        if path.name != "remove.yml":
            yield from ((path, task) for task in flat(yaml.safe_load(path.read_text())))


def reloads(task: dict[str, Any]) -> bool:
    """Whether a task can make systemd read its units: enabling does so as well."""
    module: dict[str, Any] = next((task[name] for name in SYSTEMD if name in task), {})
    words = [str(task[name]) for name in COMMANDS if name in task]
    return (
        any(module.get(key, False) is not False for key in ("enabled", "masked", "daemon_reload"))
        or "daemon-reload" in "".join(words)
        or any("systemctl" in word and "--no-reload" not in word for word in words)
    )


def test_only_one_place_reloads_systemd_and_machines_that_have_not_joined() -> None:
    found = [(path, task) for path, task in of_files() if reloads(task)]
    others = [(path, task) for path, task in found if path != START]
    assert [path for path, _task in found if path == START], "the place is not found"
    assert [(path, task["name"]) for path, task in others if task.get("when") not in NOT_JOINED] == []


@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize(("more", "state"), [({}, "started"), ({"state": "enabled"}, "omitted")])
def test_a_unit_of_a_node_that_serves_is_enabled_and_started_without_a_reload(
    joined: bool, more: dict[str, Any], state: str
) -> None:
    facts = {
        "node_record_now": {"record": {"kubernetes": {"joined": joined}}},
        "__serving_change_start": {"unit": "x.service", "state": "started", "written": True, **more},
        "omit": "omitted",
    }
    environment = NativeEnvironment()
    enable, start = yaml.safe_load(START.read_text())
    asked = {
        key: environment.from_string(str(value)).render(facts) for key, value in start[SYSTEMD[0]].items()
    }
    assert asked == {
        "name": "x.service",
        "state": state,
        "enabled": "omitted" if joined else True,
        "daemon_reload": not joined,
    }
    assert environment.compile_expression(enable["when"])(facts) is joined
    assert enable["ansible.builtin.command"]["argv"][:3] == ["systemctl", "--no-reload", "enable"]
