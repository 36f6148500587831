"""Roles alone, on a bare machine of each family: molecule's scenarios (.config/molecule/config.yml), each its own test."""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gpusmith.paths import repo_root
from tests.e2e.harness import Ended, Lab
from tests.long import foretold

SCENARIOS = sorted((repo_root() / "molecule").glob("*/scenario.yml"))
MACHINES = ("gpu-1", "gpu-2", "gpu-3")
SCENARIO_TIMEOUT_S = 1500.0


def molecule(lab: Lab, verb: str, scenario: str) -> Ended:
    """One of molecule's commands, which must succeed."""
    return lab.ok("scripts/molecule", verb, "-s", scenario, timeout=SCENARIO_TIMEOUT_S)


@pytest.fixture(scope="module")
def machines(root: Path) -> Iterator[Lab]:
    """Those that molecule has the lab start; each scenario leaves them bare."""
    lab = Lab(root, root / ".cache" / "long" / str(int(time.time())))
    lab.gpulab("down")
    molecule(lab, "create", SCENARIOS[0].parent.name)
    yield lab
    lab.gpulab("down")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda path: path.parent.name)
def test_role(machines: Lab, scenario: Path) -> None:
    # What an earlier run has left proves nothing.
    shutil.rmtree(handed_over(scenario.parent.name), ignore_errors=True)
    ended = molecule(machines, "test", scenario.parent.name)
    # A step whose playbook it does not find is none that it reports as a failure.
    assert "Missing playbook" not in ended.output, str(ended)
    would_change = ended.output.partition("WHAT WOULD CHANGE")[2].partition("PLAY [")[0]
    assert yaml.safe_load(scenario.read_text())["scenario"]["told"] in would_change, str(ended)
    # Objects of the cluster are compared by tests/e2e/test_2_site.py.
    assert compared(scenario.parent.name, ended.output) == {}


STEPS = ("bare", "came", "changed", "removed")
"""Snapshots of a machine in their order."""


def compared(role: str, output: str) -> dict[str, list[str]]:
    """By step and machine, where what came is not what check mode told before."""
    folder = handed_over(role)
    texts = {"came": output, **{step: (folder / f"{step}.told").read_text() for step in STEPS[2:]}}
    found = {}
    for before, step in itertools.pairwise(STEPS):
        told = foretold.told(texts[step])
        # Roles of the cluster tell of that.
        assert "the cluster" in told or set(told) == set(MACHINES), f"step '{step}' tells of {sorted(told)}"
        for name in MACHINES:
            machine = folder / name
            found[f"{step} {name}"] = foretold.differences(
                told.get(name, foretold.NOTHING),
                foretold.kept(machine / before),
                foretold.kept(machine / step),
            )
    return {name: wrong for name, wrong in found.items() if wrong}


def handed_over(role: str) -> Path:
    """Where molecule/shared/tasks/hand_over.yml leaves what a scenario has seen."""
    return repo_root() / ".cache/molecule" / role
