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


@pytest.mark.parametrize(("machine_says", "told"), [(None, {}), ("machine's", {"gpu-1": "machine's"})])
def test_what_user_land_a_node_has_is_its_own_word(
    variables: Callable[..., dict[str, Any]],
    programs: Path,
    machine_says: str | None,
    told: dict[str, str],
) -> None:
    groups = {"gpu_nodes": {"hosts": ["gpu-1"]}}
    suite = Suite(build(groups, {"gpu-1": variables()}, "inventory", ""), programs, nodes={})
    record = healthy_record()
    record["host"]["user_land"] = machine_says
    suite.sources.__dict__["probed"] = {"gpu-1": Probed(parse(record), "", "", 0.0)}
    assert summary.user_lands(suite.sources) == told


def test_a_host_that_does_not_answer_is_its_node_whatever_its_letters(
    variables: Callable[..., dict[str, Any]], programs: Path
) -> None:
    groups = {"gpu_nodes": {"hosts": ["GPU-1"]}}
    suite = Suite(build(groups, {"GPU-1": variables()}, "inventory", ""), programs, nodes={})
    suite.sources.__dict__["probed"] = {"GPU-1": Probed(None, "no answer", "", 0.0)}
    assert suite.sources.node_name("GPU-1") == "gpu-1"
