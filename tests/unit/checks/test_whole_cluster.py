"""Checks of the cluster tier on what belongs to no node."""

from __future__ import annotations

from collections.abc import Callable

from gpusmith.checks.register import catalog
from gpusmith.checks.whole_cluster import Removed, WholeCluster, leftovers, runtime_class
from gpusmith.cluster.snapshot import Snapshot
from gpusmith.wanted.node import NodeWanted

MakeHost = Callable[..., NodeWanted]


def test_runtime_class(host: MakeHost) -> None:
    def causes(classes: dict[str, str]) -> list[str]:
        facts = WholeCluster([host()], Snapshot({}, classes), Removed())
        return [problem.cause for problem in runtime_class(facts)]

    assert causes({"nvidia": "nvidia"}) == []
    assert causes({}) == ["The cluster has no RuntimeClass 'nvidia'."]
    assert causes({"nvidia": "runc"})


def test_what_an_earlier_run_left_and_cannot_be_removed_fails(host: MakeHost) -> None:
    def facts(stuck: dict[str, str]) -> WholeCluster:
        return WholeCluster([host()], Snapshot({}, {}), Removed(("old",), ("other",), stuck))

    assert leftovers(facts({})) == []
    assert catalog()["cluster.leftovers"].evidence(facts({})) == {"removed": ["old"], "other_runs": ["other"]}
    (problem,) = leftovers(facts({"old": "a finalizer"}))
    assert "'old' of an earlier run cannot be removed: a finalizer" in problem.cause
