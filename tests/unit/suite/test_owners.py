"""Nobody is told to run site.yml for a part that it leaves alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpusmith.checks.findings import Finding, NotAsked, Outcome
from gpusmith.checks.register import catalog
from gpusmith.cluster.hints import of_policy, of_registry
from gpusmith.data import models
from gpusmith.names import PURPOSE, PURPOSE_LABEL
from gpusmith.node.facts import NodeFacts
from gpusmith.node.records import parse
from gpusmith.problems import Problem
from gpusmith.suite.owners import OWNER, PARTS, SERVICES, for_owner, without_ours
from gpusmith.wanted.node import NodeWanted
from gpusmith.workloads.waiting import NotLocal, PullTrouble, out_of_memory, queued
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


@pytest.mark.parametrize(
    ("step", "left"),
    [
        (
            PullTrouble("x").hint,
            "Look at the image's name in option '--images', at the registry, and at the node's way to it.",
        ),
        (
            of_registry("401 unauthorized"),
            "A registry that asks for credentials gets them from a Secret in 'imagePullSecrets' of service account 'default'.",
        ),
        (NotLocal("x").hint, NotLocal("x").hint.replace(", and at 'validation_pod_limits'", "")),
        (
            out_of_memory("its pod", "1Gi").hint,
            "A LimitRange or an admission policy of the cluster has set it: set that to more.",
        ),
        (
            queued("a gate").hint,
            f"Have whoever set that leave namespaces with label '{PURPOSE_LABEL}={PURPOSE}' alone.",
        ),
        (of_policy("denied the request"), "Have its owner make an exception."),
        (
            "Compare routes. Where policies forbid it to new namespaces: 'validation_network: false'.",
            "Compare routes. Look for a NetworkPolicy of the namespace that forbids it.",
        ),
        ("Run site.yml for the node.", OWNER),
        ("Run 'systemctl enable kubelet' on 'n' or site.yml.", OWNER),
        (
            "Correct 'gpusmith_gpu_model' in the inventory, or ask who changed the board.",
            "Ask who changed the board.",
        ),
        ("Read the kernel's log: kubectl get nodes", "Read the kernel's log: kubectl get nodes"),
    ],
)
def test_steps_on_what_others_set_up_name_nothing_of_ours(step: str, left: str) -> None:
    finding = Finding("c", "n", Outcome.FAILED, "8 on PCI, 7 in the inventory.", next_step=step)
    found = without_ours(finding)
    assert found.next_step == left
    assert found.cause == "8 on PCI, 7 in the cluster."
