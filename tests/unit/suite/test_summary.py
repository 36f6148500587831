"""What a run says of the nodes besides its findings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpusmith.node.connections import Probed
from gpusmith.node.records import parse
from gpusmith.suite import summary
from gpusmith.suite.run import Suite
from tests.unit.hosts import build
from tests.unit.records import healthy_record


@pytest.mark.parametrize(
    ("inventory_says", "machine_says", "told"),
    [
        ("", None, {}),
        ("inventory's", None, {"gpu-1": "inventory's"}),
        ("", "machine's", {"gpu-1": "machine's"}),
        ("inventory's", "machine's", {"gpu-1": "machine's"}),
    ],
)
def test_what_a_node_is_comes_from_itself_first(
    variables: Callable[..., dict[str, Any]],
    programs: Path,
    inventory_says: str,
    machine_says: str | None,
    told: dict[str, str],
) -> None:
    groups = {"gpu_nodes": {"hosts": ["gpu-1"]}}
    host = {"gpu-1": variables(gpusmith_user_land=inventory_says)}
    suite = Suite(build(groups, host, "inventory", ""), programs, nodes={})
    record = healthy_record()
    record["host"]["user_land"] = machine_says
    suite.sources.__dict__["probed"] = {"gpu-1": Probed(parse(record), "", "", 0.0)}
    assert summary.user_lands(suite.sources) == told
