"""Every role is tested alone, and a scenario sets what its role takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusmith.inventory import specs
from gpusmith.paths import repo_root

MOLECULE = repo_root() / "molecule"
SCENARIOS = sorted(MOLECULE.glob("*/scenario.yml"))
# Who tests the others.
ELSEWHERE = {
    "gpu_upgrade": "tests/long/test_upgrade.py",
    "node_record": "tests/unit/probe/test_collect.py",
    "node_stamp": "tests/e2e/test_3_validation.py",
    "preflight": "tests/e2e/test_4_refusals.py",
    "serving_change": "tests/long/test_serving_runtime.py",
}


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())["scenario"]


by_scenario = pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.parent.name)


def test_every_role_has_a_scenario_or_is_tested_elsewhere() -> None:
    roles = {path.name for path in (repo_root() / "roles").iterdir()}
    assert {path.parent.name for path in SCENARIOS} == roles - set(ELSEWHERE)
    assert [place for place in ELSEWHERE.values() if not (repo_root() / place).is_file()] == []


@by_scenario
def test_a_scenario_is_of_the_role_of_its_name_and_sets_its_variables(path: Path) -> None:
    scenario = load(path)
    assert scenario["role"] == path.parent.name
    known = set(specs.load().of(scenario["role"]))
    given = [scenario["default"], scenario["changed"], *scenario["wrong"]]
    assert {name for each in given for name in each["vars"]} <= known
    # The facts of one row are there for the next.
    assert len({tuple(row["vars"]) for row in scenario["wrong"]}) == 1
    assert scenario["changed"]["vars"]
