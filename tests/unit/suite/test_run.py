"""A run of the suite over a cluster in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpusmith.checks.findings import Finding, Outcome
from gpusmith.checks.register import Reads
from gpusmith.checks.whole_cluster import Removed
from gpusmith.cluster import snapshot
from gpusmith.cluster.snapshot import Snapshot
from gpusmith.cluster.views import NodeView
from gpusmith.node.connections import Probed, Result, Unreachable
from gpusmith.node.records import parse
from gpusmith.suite import evaluation, sources
from gpusmith.suite.maintenance import NONE, Maintenance
from gpusmith.suite.run import Suite
from gpusmith.suite.sources import ClusterState, Sources
from gpusmith.workloads import runner
from tests.unit.hosts import VERSION, build, host_variables
from tests.unit.objects import gpus
from tests.unit.records import healthy_record


@pytest.fixture
def suite(variables: Callable[..., dict[str, Any]], fake_cluster: Any, programs: Path) -> Suite:
    """One node, whose record and Node object are there."""
    inventory = build({"gpu_nodes": {"hosts": ["gpu-1"]}}, {"gpu-1": variables()}, "inventory", "")
    made = Suite(inventory, programs, nodes={"gpu-1": Silent()})
    view = NodeView("gpu-1", True, (), False, gpus(4), gpus(4), {}, {}, ())
    made.sources.__dict__["cluster_state"] = ClusterState(
        fake_cluster, Snapshot({"gpu-1": view}, {"nvidia": "nvidia"}), Removed()
    )
    return made


class Silent:
    """A node that does not answer."""

    name = "gpu-1"

    def run(self, argv: Sequence[str], stdin: bytes = b"", timeout_s: float = 60.0) -> Result:
        raise Unreachable("no answer")


@pytest.mark.parametrize(
    ("asked", "reason"),
    [(False, "the workloads tier did not run"), (True, "the workloads were ended before they were done")],
    ids=["before", "in the middle"],
)
def test_an_interrupted_run_says_how_far_it_came(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, asked: bool, reason: str
) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run_all", interrupted)
    if asked:
        with pytest.raises(KeyboardInterrupt):
            suite.evaluate("workloads.cuda", "gpu-1")
    coverage = suite.results().coverage["gpu-1"]
    assert coverage.excluded == {reason: 4}


def test_the_lists_are_read_again_while_an_operand_starts(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = {
        "metadata": {"name": "nfd-worker-x"},
        "spec": {"nodeName": "gpu-1"},
        "status": {"containerStatuses": [{"state": {"running": {}}, "ready": False}]},
    }
    (ready,) = suite.sources.cluster_state.snapshot.nodes.values()
    answers = [Snapshot({"gpu-1": ready}, {}, pods) for pods in ((starts,), ())]
    taken = iter(answers)
    monkeypatch.setattr(sources, "Cluster", lambda _: SimpleNamespace(items=lambda _: []))
    monkeypatch.setattr(Sources, "_remove_leftovers", lambda *_: Removed())
    monkeypatch.setattr(snapshot, "take", lambda *_: next(taken))
    monkeypatch.setattr(snapshot, "OPERANDS_TICK_S", 0.0)
    del suite.sources.__dict__["cluster_state"]
    assert suite.sources.cluster_state.snapshot is answers[1]


def test_a_run_for_an_upgrade_tells_its_workloads_and_waits_for_its_labels(
    variables: Callable[..., dict[str, Any]], programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inventory = build({"gpu_nodes": {"hosts": ["gpu-1"]}}, {"gpu-1": variables()}, "inventory", "")
    seen: dict[str, Any] = {}

    def take(*_: Any, loaded: dict[str, str], **__: Any) -> Snapshot:
        seen["loaded"] = loaded
        return Snapshot({}, {})

    def run_all(*words: Any) -> Any:
        seen["maintenance"] = [target.maintenance for target in words[3]]
        return {}, None

    monkeypatch.setattr(sources, "Cluster", lambda _: object())
    monkeypatch.setattr(Sources, "_remove_leftovers", lambda *_: Removed())
    monkeypatch.setattr(snapshot, "take_settled", take)
    monkeypatch.setattr(runner, "run_all", run_all)
    record = parse(healthy_record())
    for upgrade, loaded in ((Maintenance("u1", "580.200.01"), {"gpu-1": VERSION}), (NONE, {})):
        made = Suite(inventory, programs, nodes={}, maintenance=upgrade)
        made.sources.__dict__["probed"] = {"gpu-1": Probed(record, "", "", 0.0)}
        assert made.sources.workload_runs[0] == {}
        assert seen == {"loaded": loaded, "maintenance": [upgrade.id]}
        told = made.results().info
        assert (told.maintenance_id, told.driver_version) == (upgrade.id, upgrade.driver_version)


def test_without_a_declared_model_nodes_are_compared_with_those_of_the_same_gpus(programs: Path) -> None:
    names = ("gpu-1", "gpu-2", "gpu-3")
    hosts = {name: host_variables(gpusmith_gpu_model=None) for name in names}
    suite = Suite(build({"gpu_nodes": {"hosts": list(names)}}, hosts, "inventory", ""), programs, nodes={})
    records = {name: healthy_record() for name in names}
    for gpu in records["gpu-3"]["pci"]["gpus"]:
        gpu["device_id"] = "10de:2bbf"
    suite.sources.__dict__["probed"] = {
        name: Probed(parse(record), "", "", 0.0) for name, record in records.items()
    }
    facts = {name: evaluation.FACTS[Reads.RECORD](suite.sources, name) for name in names}
    assert [sorted(each.fleet) for each in facts.values()] == [
        ["gpu-1", "gpu-2"],
        ["gpu-1", "gpu-2"],
        ["gpu-3"],
    ]
    assert [each.model and each.model.key for each in facts.values()] == ["h100-sxm", "h100-sxm", None]


@pytest.mark.parametrize(("own", "seen"), [("/admin", "/admin"), ("", "/suite")])
def test_commands_in_findings_are_those_of_an_administrator(
    variables: Callable[..., dict[str, Any]],
    programs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    own: str,
    seen: str,
) -> None:
    source = tmp_path / "mine.ini"
    source.touch()
    given = variables(gpusmith_kubeconfig=own, validation_kubeconfig="/suite")
    suite = Suite(
        build({"gpu_nodes": {"hosts": ["gpu-1"]}}, {"gpu-1": given}, str(source), ""), programs, nodes={}
    )
    step = "Try: kubectl uncordon gpu-1, then 'ansible-playbook -i INVENTORY site.yml'"
    found = Finding("nodes.nvml", "gpu-1", Outcome.FAILED, "See 'kubectl get nodes'.", next_step=step)
    monkeypatch.setattr("gpusmith.suite.run.evaluate", lambda *_: found)
    made = suite.evaluate("nodes.nvml", "gpu-1")
    assert suite.findings == [made]
    assert made.cause == f"See 'kubectl --kubeconfig {seen} get nodes'."
    assert f"kubectl --kubeconfig {seen} uncordon gpu-1" in made.next_step
    assert f"ansible-playbook -i {source} " in made.next_step
