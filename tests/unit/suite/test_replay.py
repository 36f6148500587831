"""A run is judged again from its evidence as it was judged at first."""

from __future__ import annotations

import copy
import gzip
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from gpusmith.checks.findings import Finding, Outcome, Skip
from gpusmith.checks.register import CLUSTER, TIERS, catalog
from gpusmith.cluster import snapshot
from gpusmith.cluster.api import ApiUnreachable
from gpusmith.errors import InputError
from gpusmith.node.connections import Result, Unreachable
from gpusmith.report import document
from gpusmith.suite import evidence, replay, sources
from gpusmith.suite.evidence import Evidence
from gpusmith.suite.run import Suite
from gpusmith.suite.sources import Sources
from tests.unit.checks.mutations import MUTATIONS
from tests.unit.checks.world import IN_PODS, NAMES, PODS, World
from tests.unit.hosts import UUIDS
from tests.unit.objects import operand
from tests.unit.workloads.answers import short_waits

SECRET = "hunter2"


def busy(world: World) -> None:
    """A tenant has a GPU, and everything that may be secret is."""
    pod = operand("training")
    pod["metadata"] |= {"name": "training", "namespace": "team"}
    pod["spec"]["nodeName"] = "gpu-1"
    pod["spec"]["containers"] = [
        {
            "name": "main",
            "env": [{"name": "TOKEN", "value": SECRET}],
            "resources": {"limits": {"nvidia.com/gpu": "1"}},
        }
    ]
    worker = world.lists[PODS][2]
    worker["spec"]["initContainers"] = pod["spec"]["containers"]
    worker["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": SECRET}
    world.lists[PODS].append(pod)
    world.variables |= {
        "ansible_ssh_common_args": f"-o ProxyCommand={SECRET}",
        "containerd_repository": {
            "type": "deb",
            "uris": [f"https://user:{SECRET}@mirror/debian"],
            "suites": ["x"],
            "key": "/etc/hosts",
        },
    }
    world.cluster.foreign["gpu-1"] = {UUIDS[0]}


def busier(world: World) -> None:
    """Another GPU is taken between the first lists and the node's turn; coverage tells how it was then."""
    pod = copy.deepcopy(world.lists[PODS][-1])
    pod["metadata"]["name"] = "inference"
    world.lists[PODS].append(pod)
    world.cluster.foreign["gpu-1"] = set(UUIDS[:2])


class Answers:
    """A node that prints a text."""

    def __init__(self, name: str, record: Any) -> None:
        self.name, self.record = name, record

    def run(self, *_: Any, **__: Any) -> Result:
        if self.record is None:
            raise Unreachable(f"Node '{self.name}' does not answer over ssh.", "Try ssh.")
        return Result(0, f"Welcome!\n{json.dumps(self.record)}\n", "")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    short_waits(monkeypatch)
    monkeypatch.setattr(snapshot, "OPERANDS_WAIT_S", 0.0)


def first(
    world: World, folder: Path, monkeypatch: pytest.MonkeyPatch, tiers: tuple[str, ...] = TIERS
) -> Suite:
    """The run that leaves evidence."""

    def cluster(_: str) -> Any:
        if not world.answers:
            raise ApiUnreachable("The API server does not answer.", "Look at it.")
        return world.cluster

    monkeypatch.setattr(sources, "Cluster", cluster)
    monkeypatch.setattr(Sources, "_remove_leftovers", lambda *_: world.removed)
    nodes = {
        name: Answers(name, record) for name, record in zip(NAMES, (world.record, world.other), strict=True)
    }
    return Suite(world.inventory, IN_PODS, tiers, nodes=nodes, evidence=Evidence(folder / evidence.FOLDER))


def again(folder: Path, tiers: tuple[str, ...] | None = None) -> Suite:
    """The same from the files, without anybody who could be asked."""
    found = replay.read(str(folder), Path("/nowhere"))
    return Suite(found.inventory, IN_PODS, tiers or found.tiers, nodes=found.nodes, recorded=found)


def judged(suite: Suite) -> list[Finding]:
    for check in catalog().values():
        if check.tier in suite.tiers:
            for target in suite.inventory.hosts if check.per_node else [CLUSTER]:
                suite.evaluate(check.id, target)
    return suite.findings


def told(suite: Suite) -> dict[str, Any]:
    """All that results.json says, but for times and what tells a replay from a run."""
    whole = document.plain(suite.results())
    for row in whole["checks"]:
        del row["duration_s"]
    run = whole["run"]
    for name in ("id", "started", "duration_s", "replay_of", "complete"):
        del run[name]
    run["verdict"] = run["verdict"].partition(" (")[0]
    return whole


@pytest.mark.parametrize("name", [*MUTATIONS, "busy", "no machine answers"])
def test_a_replay_finds_what_the_run_found(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    changes = {"busy": busy, "no machine answers": lambda world: setattr(world, "record", None)}
    (changes.get(name) or MUTATIONS[name][0].change)(world)
    tier = name.partition(".")[0]
    asked = TIERS[: TIERS.index(tier) + 1] if tier in TIERS else TIERS
    run = first(world, tmp_path, monkeypatch, ("nodes", "cluster") if tier == "nodes" else asked)
    if name == "busy":
        assert len(run.sources.cluster_state.snapshot.nodes) == len(NAMES)
        busier(world)
    judged(run)
    repeated = again(tmp_path)
    judged(repeated)
    assert told(repeated) == told(run)
    assert repeated.results().info.replay_of == run.run.id
    assert not repeated.results().complete, "a replay must stamp no node"


def test_a_check_of_the_sites_own_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged(first(World(), tmp_path, monkeypatch, TIERS[:1]))
    path = tmp_path / "evidence" / "run.json"
    run = json.loads(path.read_text())
    run["checks"].append("nodes.rack")
    path.write_text(json.dumps(run))
    info = again(tmp_path).results().info
    assert info.not_replayed == ("nodes.rack",)
    assert f"replay of run {run['id']} without nodes.rack" in info.reservations


def test_evidence_is_its_owners_and_has_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    busy(world)
    judged(first(world, tmp_path, monkeypatch))
    files = [path for path in (tmp_path / "evidence").rglob("*") if path.is_file()]
    assert {path.parent.name for path in files} == {"evidence", "nodes", "pods"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    texts = {
        path.name: (
            gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        ).decode()
        for path in files
    }
    assert [name for name, text in texts.items() if SECRET in text] == []
    assert json.loads(texts["gpu-1.json"]) == world.record, "the record is there as it came"
    assert any(name.startswith("gpu-1.n0-cuda") for name in texts)
    evidence.clear(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_the_run_did_not_ask_is_never_a_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first(World(), tmp_path, monkeypatch)
    found = {(row.outcome, row.skip, row.cause.split(":")[0]) for row in judged(again(tmp_path))}
    assert found == {(Outcome.SKIPPED, Skip.BLOCKED, "Not replayed")}


def test_a_workload_that_the_run_did_not_have_is_no_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = first(World(), tmp_path, monkeypatch)
    outcomes, cleanup = run.sources.workload_runs
    del outcomes["gpu-1"].findings["workloads.cuda"]
    run.sources.evidence.workloads(outcomes, cleanup)
    found = again(tmp_path).evaluate("workloads.cuda", "gpu-1")
    assert (found.outcome, found.skip) == (Outcome.SKIPPED, Skip.BLOCKED)
    assert "had no check 'workloads.cuda'" in found.cause


def test_files_that_are_cut_off_or_gone_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged(first(World(), tmp_path, monkeypatch))
    folder = tmp_path / "evidence"
    (folder / "nodes" / "gpu-1.json").unlink()
    for name in ("cluster.json.gz", "workloads.json.gz"):
        (folder / name).write_bytes((folder / name).read_bytes()[:-20])
    found = {(row.check, row.target): row for row in judged(again(tmp_path))}
    assert found["nodes.reachable", "gpu-1"].outcome is Outcome.FAILED
    assert found["cluster.api", CLUSTER].outcome is Outcome.ERROR
    assert "cannot be read" in found["cluster.api", CLUSTER].cause
    assert {row.outcome for row in found.values() if row.check.startswith("workloads.")} == {Outcome.SKIPPED}


@pytest.mark.parametrize("text", [None, "{}", '{"schema": "gpusmith.evidence/9"}', "no JSON"])
def test_a_folder_without_evidence_of_this_schema_is_refused(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "run.json").write_text(text)
    with pytest.raises(InputError, match=r"run\.json"):
        replay.read(str(tmp_path), tmp_path)


def test_evidence_that_cannot_be_written_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "evidence").write_text("a file is in the way")
    kept = Evidence(tmp_path / "evidence")
    kept.pod("gpu-1.n0-cuda", "text")
    assert "cannot be written" in kept.trouble
