"""Workloads that an inventory describes."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.checks.findings import Outcome, Skip
from gpusmith.checks.register import catalog
from gpusmith.errors import InputError
from gpusmith.suite.evaluation import evaluate
from gpusmith.workloads import own
from tests.unit.checks.world import World
from tests.unit.hosts import make_host

BURN = {
    "name": "burn",
    "image": "registry.example/burn:1",
    "command": ["burn", "60"],
    "gpus": "all",
    "expect": "OK",
}
RESULT = '{"schema": "gpusmith.workload/1", "ok": true, "memory_gb_s": 1}'


@pytest.mark.parametrize(
    ("log", "failed", "says"),
    [
        ("GPU 0: OK", "", ""),
        (f"OK\n{RESULT}", "", ""),
        ("GPU 0: bad", "", "did not print 'OK'"),
        ("OK", "Error, exit status 3", "failed: Error, exit status 3"),
        (f"OK\n{RESULT}", "exit status 3", "failed: exit status 3"),
        ('OK\n{"schema": "gpusmith.workload/1", "ok": false, "error": "too hot"}', "", "failed: too hot"),
    ],
)
def test_exit_code_and_text_decide(log: str, failed: str, says: str) -> None:
    judged = own.judge("gpu-1", BURN, log, failed)
    assert "".join(problem.cause for problem in judged.problems).endswith(f"{says}." if says else "")
    assert bool(judged.problems) is bool(says)
    assert judged.evidence["log"] == log
    assert judged.evidence.get("memory_gb_s") == (1 if RESULT in log else None)


def found(world: World) -> dict[str, tuple[Outcome, Skip | None, str]]:
    sources = world.sources()
    own.register(sources.inventory.hosts.values())
    rows = [evaluate(catalog()["workloads.burn"], name, sources) for name in sources.inventory.hosts]
    return {row.target: (row.outcome, row.skip, row.cause) for row in rows}


def test_it_runs_on_nodes_that_have_it(register_open: None) -> None:
    world, seen = World(), list[Any]()
    world.variables["validation_workloads"] = [BURN]

    def answer(env: dict[str, str], uuids: list[str]) -> dict[str, Any]:
        seen.append((env["GPUSMITH_GPUS"], len(uuids)))
        return {"ok": True, "said": "OK"}

    world.cluster.answers["60"] = answer
    outcomes = found(world)
    assert outcomes["gpu-1"] == (Outcome.PASSED, None, "")
    assert outcomes["gpu-2"][:2] == (Outcome.SKIPPED, Skip.NOT_APPLICABLE)
    assert seen == [("4", 4)]


def test_a_pod_that_fails_fails_the_check(register_open: None) -> None:
    world = World()
    world.variables["validation_workloads"] = [{**BURN, "expect": ""}]
    world.cluster.answers["60"] = lambda *_: {"ok": False, "error": "too hot"}
    outcome, _skip, cause = found(world)["gpu-1"]
    # By its exit code, whatever it printed.
    assert (outcome, cause) == (Outcome.FAILED, "Node 'gpu-1': workload 'burn' failed: no reason given.")


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([{**BURN, "name": "cuda"}], "check 'workloads.cuda' is there already"),
        ([BURN, {**BURN, "gpus": "1"}], "gives workload 'burn' all and 1 GPUs"),
        ([{**BURN, "gpus": "99"}], "gives workload 'burn' 99 GPUs, of 4"),
    ],
    ids=["a taken name", "two numbers of GPUs", "more than there are"],
)
def test_what_cannot_be_registered_is_refused(
    register_open: None, rows: list[dict[str, Any]], says: str
) -> None:
    hosts = [make_host(validation_workloads=[row]) for row in rows]
    with pytest.raises(InputError, match=says):
        own.register(hosts)
