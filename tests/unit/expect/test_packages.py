"""Versions of runtime, toolkit and Kubernetes: those of a node that serves stay, unless the inventory allows to change them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpusmith.expect.packages import outdated, problems, to_ask_for
from gpusmith.expect.wanted import Driver, Packages, packages_of
from gpusmith.node.records import parse
from gpusmith.problems import Cure
from tests.unit.expect.converged import SETTINGS, converged_record
from tests.unit.expect.role_plans import kubelet_plan
from tests.unit.hosts import VERSION, make_host

KUBERNETES = dict.fromkeys(("kubelet", "kubeadm", "kubectl"), "1.36.3")
OTHER = {"version": "1.36.2-1.1", "held": True}


def drifted(*, joined: bool = True) -> dict[str, Any]:
    record = converged_record()
    record["kubernetes"]["joined"] = joined
    record["packages"].update(kubelet=OTHER, kubeadm=OTHER)
    del record["packages"]["kubectl"]
    return record


def test_a_node_that_serves_keeps_its_versions() -> None:
    plan = kubelet_plan(drifted(), SETTINGS["kubernetes_node"])
    assert plan["drift"] == [
        "package 'kubelet' is 1.36.2, the inventory wants 1.36.3",
        "package 'kubeadm' is 1.36.2, the inventory wants 1.36.3",
    ]
    # What else is wrong is repaired, in the version of the others.
    assert plan["problems"] == ["package 'kubectl' is not installed"]
    assert plan["asked"]["packages"] == dict.fromkeys(KUBERNETES, "1.36.2-1.1")
    record = drifted()
    record["packages"]["kubectl"] = OTHER
    assert kubelet_plan(record, SETTINGS["kubernetes_node"])["problems"] == []


@pytest.mark.parametrize(("joined", "allowed"), [(True, True), (False, False)])
def test_any_other_node_gets_the_inventorys(joined: bool, allowed: bool) -> None:
    settings = {**SETTINGS["kubernetes_node"], "change_on_joined": allowed}
    plan = kubelet_plan(drifted(joined=joined), settings)
    assert plan["drift"] == []
    assert plan["asked"]["packages"] == KUBERNETES
    assert "packages" in plan["cures"]


def test_only_the_packages_of_other_versions_are_asked_for_in_theirs() -> None:
    record = converged_record()
    record["packages"]["kubelet"] = OTHER
    wanted = Packages("gpu-1", KUBERNETES, kept=True)
    assert to_ask_for(parse(record), wanted) == {**KUBERNETES, "kubelet": "1.36.2-1.1"}
    assert to_ask_for(parse(converged_record()), wanted) == KUBERNETES


def test_the_next_step_names_the_variable() -> None:
    (problem,) = problems(parse(drifted()), Packages("gpu-1", {"kubelet": "1.36.3"}, kept=True))
    assert problem.cure is Cure.UPGRADE
    assert "'gpusmith_change_runtime_on_joined'" in problem.next_step


@pytest.mark.parametrize(("allowed", "kept"), [(None, True), (False, True), (True, False)])
def test_the_suite_goes_by_the_same_variable(allowed: bool | None, kept: bool) -> None:
    host = make_host(gpusmith_change_runtime_on_joined=allowed)
    assert packages_of(host, parse(converged_record())).kept is kept


@pytest.mark.parametrize(
    ("name", "source"), [("libxnvctrl0", "nvidia-settings"), ("nvidia-settings", None), ("libxnvctrl0", None)]
)
def test_the_panel_for_x_has_a_version_of_its_own(name: str, source: str | None) -> None:
    """The distribution's hwloc brings its library, in the version of some older driver."""
    raw = converged_record()
    raw["packages"][name] = {"version": "510.47.03-0ubuntu4", "held": False, "source": source}
    wanted = Driver(node="gpu-1", version=VERSION)
    wanted = replace(wanted, layout=replace(wanted.layout, patterns=("*nvidia*", "libxnvctrl0")))
    assert outdated(parse(raw), wanted) == {}
