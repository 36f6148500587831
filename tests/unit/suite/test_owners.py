"""Nobody is told to run site.yml for a part that it leaves alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpusmith.checks.findings import NotAsked
from gpusmith.checks.register import catalog
from gpusmith.data import models
from gpusmith.node.facts import NodeFacts
from gpusmith.node.records import parse
from gpusmith.problems import Problem
from gpusmith.suite.owners import PARTS, SERVICES, for_owner
from gpusmith.wanted.node import NodeWanted
from tests.unit.records import healthy_record

ROLES = ("nvidia_driver", "containerd", "nvidia_container_toolkit", "kubernetes_node")
OTHERS = {f"{role}_owner": "existing" for role in ROLES}


def broken() -> dict[str, Any]:
    """A node of which much is wrong."""
    raw = healthy_record()
    raw["containerd"]["version"], raw["kubernetes"]["kubelet_version"] = "1.7.20", "1.34.2"
    raw["containerd"]["effective"]["cdi"] = False
    raw["cdi"]["specs"] = []
    raw["host"]["time_unix"], raw["kubernetes"]["client_expires_unix"] = 1.8e9, 1.0
    for key in ("loaded_version", "installed_version"):
        raw["module"][key] = "470.82.01"
    for unit in raw["services"].values():
        unit["active"] = "inactive"
    return raw


def told(host: NodeWanted) -> dict[str, list[Problem]]:
    facts = NodeFacts(host, parse(broken()), models.load()[host.gpu_model], {})
    found = {}
    for name in (*PARTS, SERVICES):
        try:
            problems = catalog()[name].judge(facts)
        except NotAsked:
            continue
        assert not hasattr(problems, "outcome")
        found[name] = [for_owner(name, host, row) for row in problems]
    return found


def test_advice_for_parts_of_others_is_their_owners(host: Callable[..., Any]) -> None:
    ours, theirs = told(host()), told(host(**OTHERS))
    assert {name for name, rows in ours.items() if any("site.yml" in row.next_step for row in rows)} >= {
        SERVICES, "nodes.containerd", "nodes.containerd-version", "nodes.cdi",
    }  # fmt: skip
    for name, rows in theirs.items():
        for row in rows:
            if "device plugin" in row.cause and name == "nodes.cdi":
                continue
            assert row.next_step
            assert "site.yml" not in row.next_step, (name, row)
            assert "playbooks/" not in row.next_step, (name, row)
            assert "Correct 'nvidia_driver" not in row.next_step, (name, row)


@pytest.mark.parametrize("role", ["containerd", "nvidia_container_toolkit"])
def test_of_two_roles_one_that_is_ours_is_enough(host: Callable[..., Any], role: str) -> None:
    (row,) = told(host(**{f"{role}_owner": "existing"}))["nodes.containerd"]
    assert "site.yml" in row.next_step
