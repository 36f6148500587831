"""What check mode tells of packages that a change of the driver leaves behind, in real plays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusmith.paths import repo_root
from tests.integration.plugins.plays import play
from tests.integration.plugins.test_driver_version import HERE

ROLE = repo_root() / "roles/nvidia_driver"
OLD = "580.178.04-1"
OPEN, SOURCE = "nvidia-kernel-open-dkms", "nvidia-kernel-source-open"


def told(folder: Path, plan: dict[str, Any] | None) -> str:
    tasks = yaml.safe_load((ROLE / "tasks/install.yml").read_text())
    names = yaml.safe_load((ROLE / "vars/main.yml").read_text())
    names = {name: text for name, text in names.items() if name.startswith("__nvidia_driver_left")}
    rows = {name: {"version": OLD, "held": True} for name in (OPEN, SOURCE)}
    facts = {
        "node_record_now": {"record": {"packages": rows}},
        "__nvidia_driver_plan": {"leftovers": [OPEN], "to_be_left": [OPEN, SOURCE]},
        "__nvidia_driver_install": {"changed": True, **({} if plan is None else {"plan": plan})},
        **names,
    }
    content = {"tasks": [task for task in tasks if "behind" in task["name"]], "vars": facts}
    status, output = play(folder, {"gpu-1": HERE}, content, "--check")
    assert status == 0, output
    return output


@pytest.mark.parametrize(
    ("plan", "lines"),
    [
        # What goes with the installation is told there.
        ({"installed": {}, "changed": {}, "removed": {OPEN: OLD}}, [f"{SOURCE} {OLD} is removed"]),
        ({"installed": {}, "changed": {}, "removed": {OPEN: OLD, SOURCE: OLD}}, []),
        # The node has no list of the repository yet.
        (None, [f"{OPEN} {OLD} is removed, {SOURCE} {OLD} is removed"]),
    ],
    ids=["a part", "all of them", "unknown"],
)
def test_nothing_is_asked_to_go_while_the_driver_that_needs_it_is_there(
    tmp_path: Path, plan: dict[str, Any] | None, lines: list[str]
) -> None:
    output = told(tmp_path, plan)
    assert [line.partition("packages: ")[2] for line in output.splitlines() if "packages: " in line] == lines
