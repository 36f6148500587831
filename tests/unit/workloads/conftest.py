"""Runs of the workloads on a cluster in memory, with short waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from gpusmith.checks import register as checks
from gpusmith.checks.findings import Finding
from gpusmith.checks.register import catalog
from gpusmith.cluster.api import Cluster
from gpusmith.cluster.views import NodeView
from gpusmith.wanted.node import NodeWanted
from gpusmith.wanted.offers import devices
from gpusmith.workloads import register, runner
from gpusmith.workloads.jobs import Run
from gpusmith.workloads.outcome import NodeOutcome
from gpusmith.workloads.targets import Look, Target
from tests.unit.fake_cluster import FakeCluster
from tests.unit.workloads.answers import READY, short_waits


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    short_waits(monkeypatch)


@pytest.fixture
def register_open(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test registers is gone after it."""
    catalog()
    with monkeypatch.context() as only_here:
        only_here.setattr(checks, "_CHECKS", dict(checks._CHECKS))
        only_here.setattr(register, "_WORKLOADS", dict(register._WORKLOADS))
        yield
    checks._in_order.cache_clear()


@pytest.fixture
def said() -> list[str]:
    """What a run says while it goes on."""
    return []


@pytest.fixture
def run(
    host: Callable[..., NodeWanted], fake_cluster: FakeCluster, programs: Path, said: list[str]
) -> Callable[..., tuple[dict[str, NodeOutcome], Finding]]:
    """Runs all workloads on nodes, healthy and free ones unless a test gives a view of them.

    Args of the run:
        names: of the nodes.
        views: by the node's name with '_' for '-'.
        classes: RuntimeClasses of the cluster.
        values: changes of the hosts' variables.
        recorded: the nodes' records could be read.
        look: how a node is at a later look; as in the beginning, if a test does not say.
        maintenance: ID of the upgrade that the nodes are tested for.
        gpu_budget: how many GPUs the run may take at the same time.
    """

    def start(
        names: tuple[str, ...] = ("gpu-1",),
        classes: tuple[str, ...] = ("nvidia",),
        values: dict[str, Any] | None = None,
        recorded: bool = True,
        look: Look = lambda target: target.view,
        maintenance: str = "",
        gpu_budget: int = 0,
        **views: NodeView | None,
    ) -> tuple[dict[str, NodeOutcome], Finding]:
        targets = [
            Target(
                host(name, **(values or {})),
                views.get(name.replace("-", "_"), replace(READY, name=name)),
                devices(fake_cluster.gpus[name]) if recorded else None,
                frozenset(classes),
                maintenance,
                gpu_budget,
            )
            for name in names
        ]
        return runner.run_all(
            cast(Cluster, fake_cluster),
            Run("a1", "o", gpu_budget=gpu_budget),
            programs,
            targets,
            said.append,
            look,
        )

    return start
