"""Fixtures that tests of several packages share: hosts, a cluster in memory, what runs inside pods."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpusmith.inventory.host import Host
from tests.unit.fake_cluster import FakeCluster
from tests.unit.hosts import UUIDS, host_variables, make_host


@pytest.fixture
def host() -> Callable[..., Host]:
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
