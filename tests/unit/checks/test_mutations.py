"""The gate: every check finds a fault, and the fault goes unnoticed as soon as the check is one that finds nothing."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

import pytest

from gpusmith.checks.findings import Finding, Outcome, Skip
from gpusmith.checks.register import CLUSTER, Check, catalog, of_tier
from gpusmith.names import LAYOUT_LABEL
from gpusmith.suite.evaluation import evaluate
from tests.fleet.prometheus import firing
from tests.unit.checks.mutations import MUTATIONS, Mutation
from tests.unit.checks.world import PODS, World
from tests.unit.records import divided_record
from tests.unit.workloads.answers import short_waits

EACH = [(name, place) for name, rows in MUTATIONS.items() for place in range(len(rows))]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    short_waits(monkeypatch)


def ask(row: Check, change: Callable[[World], object] = lambda _: None) -> Finding:
    """What a check says of node gpu-1, or of the cluster, after a change."""
    world = World()
    change(world)
    return evaluate(row, "gpu-1" if row.per_node else CLUSTER, world.sources())


def neutered(row: Check) -> Check:
    """The same check with a function that finds nothing."""
    return replace(row, judge=lambda _: [])


def wrong(row: Check, mutation: Mutation) -> str:
    """Why a mutation proves nothing about a check; empty if it does."""
    found = ask(row, mutation.change)
    if found.outcome is not mutation.outcome or mutation.says not in found.cause:
        return f"it does not find it: {found.outcome}, {found.cause or 'no cause'}"
    without = ask(neutered(row), mutation.change)
    if without.outcome is not Outcome.PASSED:
        return f"something else than its function finds it: {without.outcome}, {without.cause}"
    return ""


def without_mutation(checks: Mapping[str, Check], mutations: Mapping[str, Collection[Mutation]]) -> list[str]:
    """Checks that nobody has shown to find anything."""
    return [name for name in checks if not mutations.get(name)]


def test_every_check_has_a_mutation() -> None:
    assert without_mutation(catalog(), MUTATIONS) == [], "add one to tests/unit/checks/mutations.py"
    assert set(MUTATIONS) == set(catalog()), "a mutation of no check"


@pytest.mark.parametrize(("name", "place"), EACH, ids=[f"{name}-{place}" for name, place in EACH])
def test_a_fault_is_found_by_its_check_and_by_nothing_else(name: str, place: int) -> None:
    assert wrong(catalog()[name], MUTATIONS[name][place]) == ""


def silent(judge: Callable[..., Any]) -> Callable[..., Any]:
    """A judge of what pods answered, which finds nothing."""

    def finds_nothing(*arguments: Any) -> Any:
        found = judge(*arguments)
        if isinstance(found, Finding):
            return replace(found, outcome=Outcome.PASSED, cause="")
        return replace(found, problems=())

    return finds_nothing


OF_PODS = [(name, place) for name, place in EACH if name.startswith("workloads.")]


@pytest.mark.parametrize(("name", "place"), OF_PODS, ids=[f"{name}-{place}" for name, place in OF_PODS])
def test_what_pods_answer_is_found_by_the_judge_of_its_kind(
    name: str, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation = MUTATIONS[name][place]
    kind = importlib.import_module(f"gpusmith.workloads.{mutation.kind}")
    monkeypatch.setattr(kind, "judge", silent(kind.judge))
    assert ask(catalog()[name], mutation.change).outcome is Outcome.PASSED


@pytest.mark.parametrize(
    "name", [row.id for tier in ("nodes", "cluster", "monitoring") for row in of_tier(tier)]
)
def test_a_healthy_lab_passes(name: str) -> None:
    found = ask(catalog()[name])
    assert found.outcome is Outcome.PASSED, found.cause


@pytest.mark.parametrize("simulated", [True, False])
def test_workloads_of_a_healthy_lab_pass(simulated: bool) -> None:
    world = World()
    world.variables["gpusmith_simulated"] = simulated
    sources, skipped = world.sources(), set()
    for row in of_tier("workloads"):
        found = evaluate(row, "gpu-1" if row.per_node else CLUSTER, sources)
        if found.skip is Skip.NOT_APPLICABLE:
            skipped.add(row.id)
        else:
            assert found.outcome is Outcome.PASSED, found.cause
    assert skipped == ({"workloads.performance", "workloads.uniformity"} if simulated else set())


def _kubelet_stops(world: World) -> None:
    world.seen["services"]["kubelet"].update(active="inactive")
    world.node["status"].update(conditions=[{"type": "Ready", "status": "Unknown"}])


def _machine_is_off(world: World) -> None:
    world.record = None
    world.node["status"].update(conditions=[{"type": "Ready", "status": "Unknown"}])
    world.prometheus.up["gpu-1"] = 0


def _driver_is_not_loaded(world: World) -> None:
    """Of any version; the device plugin cannot start."""
    world.seen["module"].update(loaded_version=None)
    world.seen["library"].update(simulated=None)
    world.seen["nvml"].update(init_code=9, error="Driver Not Loaded", gpus=[])
    world.lists[PODS][0]["status"]["containerStatuses"][0].update(
        ready=False, state={"waiting": {"reason": "CrashLoopBackOff"}}
    )


def _gpu_is_off_the_bus(world: World) -> None:
    for part in ("pci", "nvml"):
        world.seen[part]["gpus"].pop(1)


def _instance_is_lost(world: World) -> None:
    """Of a node whose GPUs are divided."""
    world.variables.update(gpusmith_gpu_sharing="mig", gpusmith_gpu_mig_profile="3g.40gb")
    world.record = divided_record()
    world.gpu["instances"].pop()
    world.node["metadata"]["labels"][LAYOUT_LABEL] = "mig-2x3g.40gb"
    for part in ("capacity", "allocatable"):
        world.node["status"][part] = {"nvidia.com/mig-3g.40gb": "7"}


def _alerting(name: str, alert: str) -> Callable[[World], object]:
    """What a check finds, and the alert of the same fault."""

    def fault(world: World) -> None:
        MUTATIONS[name][0].change(world)
        world.prometheus.alerts.append(firing(alert, "critical", node="gpu-1"))

    return fault


FAULTS = (
    _alerting("nodes.xid", "GpusmithGpuXid"),
    _alerting("nodes.ecc", "GpusmithGpuXid"),
    _alerting("cluster.gpu-capacity", "GpusmithGpuXid"),
    _kubelet_stops,
    _machine_is_off,
    _driver_is_not_loaded,
    _gpu_is_off_the_bus,
    _instance_is_lost,
)
EXPLAINED = [(by, row.id) for row in catalog().values() if row.tier != "workloads" for by in row.explained_by]


def fails_with(fault: Callable[[World], object], *names: str) -> bool:
    """Whether one fault lets all these checks fail on its node."""
    world = World()
    fault(world)
    sources = world.sources()
    return all(evaluate(catalog()[name], "gpu-1", sources).outcome is Outcome.FAILED for name in names)


@pytest.mark.parametrize(("by", "name"), EXPLAINED)
def test_a_check_explains_what_one_fault_lets_fail_with_it(by: str, name: str) -> None:
    assert any(fails_with(fault, by, name) for fault in (*(row.change for row in MUTATIONS[by]), *FAULTS))


# --- the gate itself -----------------------------------------------------------------------------------------


def test_a_check_without_a_mutation_is_red() -> None:
    checks = {name: catalog()[name] for name in ("nodes.ecc", "nodes.xid")}
    assert without_mutation(checks, {**MUTATIONS, "nodes.xid": ()}) == ["nodes.xid"]


def test_a_check_that_finds_nothing_is_red() -> None:
    row = catalog()["nodes.xid"]
    assert "it does not find it: passed" in wrong(neutered(row), MUTATIONS["nodes.xid"][0])


def test_a_fault_that_another_layer_finds_is_red() -> None:
    def breaks(world: World) -> None:
        world.record = None

    mutation = Mutation(breaks, "no record of node", Outcome.SKIPPED)
    assert "something else than its function finds it" in wrong(catalog()["nodes.xid"], mutation)
