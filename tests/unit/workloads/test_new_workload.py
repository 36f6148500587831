"""A workload that does not exist, made as CONTRIBUTING says: its file, its program and its mutation are all that it needs."""

from __future__ import annotations

import ctypes
import importlib
import runpy
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpusmith.workloads
from gpusmith.checks import register as checks
from gpusmith.checks.findings import Outcome
from gpusmith.checks.page import page
from gpusmith.checks.register import catalog
from gpusmith.suite.evaluation import evaluate
from gpusmith.workloads import jobs
from gpusmith.workloads.jobs import Run
from gpusmith.workloads.judge import result_of
from gpusmith.workloads.register import in_order
from tests.unit.checks.mutations import MUTATIONS, Mutation
from tests.unit.checks.test_mutations import ask, silent, without_mutation, wrong
from tests.unit.checks.world import NAMES, World
from tests.unit.workloads.programs.fake_libraries import FakeCuda

NAME = "workloads.bandwidth"
FILE = """
from gpusmith.workloads import cuda, jobs
from gpusmith.workloads.judge import Judged, program_on_gpus
from gpusmith.workloads.register import workload


@workload(
    "workloads.bandwidth",
    place=55,
    proves="copies are as fast as they should be",
    fails_when="a copy is slower",
    do="look at the link width in nodes.pcie-width",
    title="bandwidth on {gpus} GPUs",
    gpus=3,
    nodes=NODES,
    after=["workloads.cuda"],
)
def run(*nodes):
    logs = {}
    for pods in nodes:
        logs[pods.node.host.name] = pods.run_job(pods.task("bandwidth", jobs.program("run_bandwidth.py")))
    return judge(nodes[0].node.expected, logs)


def judge(expected, logs):
    found = program_on_gpus(expected, "a copy", logs[expected.node], 3, cuda.devices)
    return Judged({"nodes": sorted(logs)}, found.problems)
"""
PROGRAM = """
import gpu_driver


def work(library=None):
    cuda, count, is_simulated = gpu_driver.start_cuda(library)
    devices = [{"uuid": cuda.device(ordinal)[1]} for ordinal in range(count)]
    return {"simulated": is_simulated, "not_executed": [], "devices": devices}


if __name__ == "__main__":
    gpu_driver.run("bandwidth", work)
"""


def _slow(world: World) -> None:
    world.cluster.answers["run_bandwidth.py"] = lambda *_: {"ok": False, "error": "2 GB/s"}


MUTATION = Mutation(_slow, "2 GB/s", kind="bandwidth")


@pytest.fixture(params=[1, 2], ids=["one node", "two nodes"])
def nodes(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, register_open: None
) -> Iterator[int]:
    """The workload's file among the others; how many nodes it needs."""
    count = int(request.param)
    (tmp_path / "bandwidth.py").write_text(FILE.replace("NODES", str(count)))
    monkeypatch.setattr(gpusmith.workloads, "__path__", [*gpusmith.workloads.__path__, str(tmp_path)])
    checks._read.cache_clear()
    importlib.invalidate_caches()
    yield count
    del sys.modules["gpusmith.workloads.bandwidth"], gpusmith.workloads.bandwidth  # type: ignore[attr-defined]


def test_its_file_is_found_and_it_is_a_check_like_any_other(nodes: int) -> None:
    assert NAME in catalog()
    assert f"### `{NAME}`" in page()
    alone, together = in_order()
    assert [row.check for row in together if row.check == NAME] == ([NAME] if nodes > 1 else [])
    assert [n for n, step in enumerate(alone) if NAME in {row.check for row in step}] == (
        [2] if nodes == 1 else []
    )


def test_it_runs_on_the_nodes_that_it_needs(nodes: int) -> None:
    sources = World().sources()
    for name in NAMES:
        found = evaluate(catalog()[NAME], name, sources)
        assert found.outcome is Outcome.PASSED, found.cause
        assert found.evidence["nodes"] == (list(NAMES) if nodes == 2 else [name])


def test_its_mutation_is_asked_for_and_proves_its_judge(nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert without_mutation(catalog(), MUTATIONS) == [NAME]
    assert without_mutation(catalog(), {**MUTATIONS, NAME: (MUTATION,)}) == []
    assert wrong(catalog()[NAME], MUTATION) == ""
    kind = importlib.import_module(f"gpusmith.workloads.{MUTATION.kind}")
    monkeypatch.setattr(kind, "judge", silent(kind.judge))
    assert ask(catalog()[NAME], MUTATION.change).outcome is Outcome.PASSED


def test_its_program_travels_with_the_others_and_ends_with_a_result(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(programs, tmp_path / "programs"))
    (folder / "run_bandwidth.py").write_text(PROGRAM)
    assert jobs.programs(Run("a1", "o"), folder)["data"]["run_bandwidth.py"] == PROGRAM
    monkeypatch.setenv("GPUSMITH_SIMULATED", "true")
    monkeypatch.setattr(ctypes, "CDLL", lambda name: FakeCuda(simulated=True))
    monkeypatch.syspath_prepend(str(folder))
    try:
        runpy.run_path(str(folder / "run_bandwidth.py"), run_name="__main__")
    finally:
        sys.modules.pop("gpu_driver", None)
    result = result_of(capsys.readouterr().out)
    assert result is not None
    assert (result["ok"], len(result["devices"])) == (True, 2)
