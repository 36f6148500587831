"""Fixtures that tests of several packages share: hosts, a cluster in memory, what runs inside pods."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from gpusmith.expect import gpus
from gpusmith.expect.wanted import all_models
from gpusmith.node.facts import NodeFacts
from gpusmith.node.records import parse
from gpusmith.wanted.node import NodeWanted
from tests.unit.fake_cluster import FakeCluster
from tests.unit.hosts import UUIDS, host_variables, make_host
from tests.unit.records import Record, healthy_record, other_record

# The same examples in every run: a red check is red again for whoever looks, and no machine is too slow.
settings.register_profile("gpusmith", derandomize=True, database=None, deadline=None)
settings.load_profile("gpusmith")


STARTS = {"subprocess.Popen", "os.posix_spawn", "os.exec", "os.system"}
"""Events of Python by which another program is started (docs.python.org, "Audit events table")."""
RUNNING: list[str] = []
"""The test of this folder that runs, or whose fixtures do."""


def refuse(event: str, words: tuple[Any, ...]) -> None:
    """Unit tests take milliseconds and depend on nothing of the machine. Only git, which lists the project's files, may start."""
    if RUNNING and event in STARTS and Path(os.fsdecode(words[0] or words[1][0])).name != "git":
        pytest.fail(f"A unit test starts '{words[0]}'. Move the test to tests/integration.")


sys.addaudithook(refuse)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Called for tests of other folders, too, once this file is loaded."""
    if Path(__file__).parent in item.path.parents:
        RUNNING.append(item.nodeid)
    try:
        return (yield)
    finally:
        RUNNING.clear()


@pytest.fixture
def host() -> Callable[..., NodeWanted]:
    """Makes hosts."""
    return make_host


@pytest.fixture
def variables() -> Callable[..., dict[str, Any]]:
    """Makes a host's variables."""
    return host_variables


@pytest.fixture
def programs(root: Path) -> Path:
    """Folder of what runs inside pods."""
    return root / "validation" / "workloads" / "programs"


@pytest.fixture
def fake_cluster() -> FakeCluster:
    """Two nodes of four GPUs."""
    other = [uuid.replace("GPU-0", "GPU-9") for uuid in UUIDS]
    return FakeCluster({"gpu-1": list(UUIDS), "gpu-2": other})


@pytest.fixture
def record() -> Record:
    """A healthy node's record, to be broken."""
    return healthy_record()


@pytest.fixture
def facts() -> Callable[..., NodeFacts]:
    """Makes what a node check gets: a record, other nodes' records, changes of the inventory."""

    def make(raw: Record, fleet: dict[str, Record] | None = None, **changes: Any) -> NodeFacts:
        of = make_host(**changes)
        rows = {"gpu-1": raw, **(fleet or {"gpu-2": other_record()})}
        parsed = {name: parse(row) for name, row in rows.items()}
        known = all_models(of)
        model = known.get(of.gpu_model) or gpus.row_of(parsed["gpu-1"], known)
        return NodeFacts(of, parsed["gpu-1"], model, parsed)

    return make
