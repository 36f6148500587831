"""What tier monitoring asks, of whom, and how long it waits for what comes by itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpusmith.checks.findings import Finding, Outcome, Skip
from gpusmith.checks.register import CLUSTER, TIERS, catalog, of_tier
from gpusmith.cluster.api import ApiRefused
from gpusmith.errors import InputError
from gpusmith.names import LAYOUT_LABEL
from gpusmith.suite import evidence, monitoring
from gpusmith.suite.evaluation import evaluate
from gpusmith.suite.evidence import Evidence
from gpusmith.suite.maintenance import Maintenance
from gpusmith.suite.run import Suite, tiers_of, usual
from gpusmith.wait import Done, NotYet, WaitTimeout
from tests.fleet.prometheus import MANAGED, firing
from tests.unit.checks.mutations import with_gpu
from tests.unit.checks.world import IN_PODS, PODS, World

TIER = [row.id for row in of_tier("monitoring")]


def findings(world: World) -> dict[str, Finding]:
    """Of node gpu-1 and of the cluster."""
    sources = world.sources()
    return {
        name: evaluate(catalog()[name], "gpu-1" if catalog()[name].per_node else CLUSTER, sources)
        for name in TIER
    }


def outcomes(world: World) -> dict[str, Outcome]:
    return {name: found.outcome for name, found in findings(world).items()}


@pytest.fixture
def sleeps(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """What happens while the suite waits, in turn."""
    events: list[Callable[[], object]] = []

    def wait(what: str, look: Callable[[], Done[None] | NotYet], *_: object) -> None:
        while isinstance(look(), NotYet):
            if not events:
                raise WaitTimeout(what)
            events.pop(0)()

    monkeypatch.setattr(monitoring, "wait_until", wait)
    return events


def test_each_fact_is_asked_for_once_whatever_is_found() -> None:
    world = World()
    assert set(outcomes(world).values()) == {Outcome.PASSED}
    asked = world.prometheus.asked
    assert len(asked) == len(set(asked)) == 10, asked


@pytest.mark.parametrize("answers", [True, False], ids=["a cluster", "no cluster"])
def test_without_prometheus_nobody_is_asked_and_nothing_passes(answers: bool) -> None:
    world = World(answers=answers)
    for name in MANAGED:
        del world.variables[name]
    found = findings(world)
    assert {(row.outcome, row.skip) for row in found.values()} == {(Outcome.SKIPPED, Skip.NOT_APPLICABLE)}
    assert world.prometheus.asked == []


MANAGED_PROMETHEUS = ("monitoring.prometheus", "monitoring.alerts")


@pytest.mark.parametrize(
    ("changes", "applies"),
    [
        ({"gpu_monitoring_prometheus": "existing"}, ()),
        ({"gpu_monitoring_dcgm_exporter": "none"}, (*MANAGED_PROMETHEUS, "monitoring.delivery")),
        ({"gpu_monitoring_alertmanager": "none"}, [name for name in TIER if name != "monitoring.delivery"]),
    ],
    ids=["no address", "no exporter", "no alertmanager"],
)
def test_what_is_not_there_is_not_judged(changes: dict[str, Any], applies: tuple[str, ...]) -> None:
    world = World()
    world.variables.update(changes)
    found = findings(world)
    assert [name for name, row in found.items() if row.outcome is Outcome.PASSED] == list(applies)
    assert {row.skip for name, row in found.items() if name not in applies} == {Skip.NOT_APPLICABLE}


@pytest.mark.parametrize(
    ("change", "name", "says"),
    [
        (
            lambda world: world.node["metadata"]["labels"].update({"gpusmith.io/operands": "paused"}),
            "monitoring.targets",
            "an upgrade has taken the operands off",
        ),
        (
            lambda world: world.node["metadata"]["labels"].update({"nvidia.com/gpu.replicas": "2"}),
            "monitoring.attribution",
            "divides each GPU into 2 shares",
        ),
        (
            lambda world: world.node["metadata"]["labels"].update({LAYOUT_LABEL: "time-slicing-4-as-gpu"}),
            "monitoring.attribution",
            "hands out 4 shares of each GPU as 'nvidia.com/gpu': of a GPU that pods share",
        ),
    ],
    ids=["paused", "shared", "shared by us"],
)
def test_a_node_that_has_nothing_to_judge_now(
    change: Callable[[World], object], name: str, says: str
) -> None:
    world = World()
    change(world)
    world.prometheus.up.pop("gpu-1")
    if name == "monitoring.attribution":
        world.prometheus.up["gpu-1"] = 1
    with_gpu(world)
    found = findings(world)[name]
    assert (found.skip, says in found.cause) == (Skip.NOT_APPLICABLE, True), found.cause
    assert len(world.prometheus.asked) == 10, "nobody waits for what nobody judges"


def test_nobody_waits_for_pods_of_a_node_whose_exporter_is_down() -> None:
    world = World()
    with_gpu(world)
    world.prometheus.up["gpu-1"] = 0
    findings(world)
    assert len(world.prometheus.asked) == 10


def test_a_prometheus_that_does_not_answer_fails_once_and_leaves_the_rest_open() -> None:
    world = World()
    world.prometheus.silent = True
    found = findings(world)
    assert found.pop("monitoring.prometheus").outcome is Outcome.FAILED
    assert {(row.skip, row.cause) for row in found.values()} == {
        (Skip.BLOCKED, "Prometheus cannot be asked; see monitoring.prometheus.")
    }


def test_rights_that_are_missing_are_an_error_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()

    def refused(*_: Any, **__: Any) -> str:
        raise ApiRefused("It refuses.", "Ask for rights.", 403)

    monkeypatch.setattr(world.cluster, "call", refused)
    found = findings(world)
    first = found.pop("monitoring.prometheus")
    assert (first.outcome, "rbac-monitoring.yml" in first.next_step) == (Outcome.ERROR, True)
    assert {row.skip for row in found.values()} == {Skip.BLOCKED}


def test_exporters_that_started_a_moment_ago_are_waited_for(sleeps: list[Callable[[], object]]) -> None:
    world = World()
    world.prometheus.up.pop("gpu-1")
    sleeps.append(lambda: world.prometheus.up.update({"gpu-1": 1}))
    assert outcomes(world)["monitoring.targets"] is Outcome.PASSED
    world.prometheus.up.pop("gpu-1")
    assert outcomes(world)["monitoring.targets"] is Outcome.FAILED


def test_what_site_changed_a_moment_ago_is_waited_for(sleeps: list[Callable[[], object]]) -> None:
    """Rules that Prometheus has not read yet, an Alertmanager that started, an interval that was longer before."""
    world = World()
    watch = world.prometheus
    name, rule = watch.rules.popitem()
    alert = watch.arrived.pop()
    world.variables["gpu_monitoring_interval_s"] = 5
    watch.ages["gpu-1"] = 45.0
    sleeps += [lambda: watch.rules.update({name: rule}), lambda: watch.arrived.append(alert)]
    assert set(outcomes(world).values()) == {Outcome.PASSED}
    assert sleeps == []


def named(world: World, pod: str) -> None:
    """The metrics say that a pod has a GPU."""
    world.prometheus.gpus[0].pod = pod


def test_a_pod_that_came_or_went_a_moment_ago_is_no_failure(sleeps: list[Callable[[], object]]) -> None:
    came = World()
    with_gpu(came)
    sleeps.append(lambda: named(came, "team/training"))
    assert outcomes(came)["monitoring.attribution"] is Outcome.PASSED
    went = World()
    named(went, "team/training")
    sleeps.append(lambda: named(went, ""))
    assert outcomes(went)["monitoring.attribution"] is Outcome.PASSED


def test_pods_that_change_all_the_time_are_no_failure(sleeps: list[Callable[[], object]]) -> None:
    """Each look finds another pod in one of both only."""
    world = World()
    with_gpu(world)

    def next_pod() -> None:
        named(world, "team/training")
        world.lists[PODS].pop()
        with_gpu(world)
        world.lists[PODS][-1]["metadata"]["name"] = "next"

    sleeps.append(next_pod)
    assert outcomes(world)["monitoring.attribution"] is Outcome.PASSED


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda world: world.prometheus.gpus.pop(0), "the metrics have 3 GPUs, the inventory says 4"),
        (lambda world: None, ""),
    ],
)
def test_without_a_record_the_number_of_the_inventory_counts(
    change: Callable[[World], object], says: str
) -> None:
    world = World()
    change(world)
    sources = world.sources()
    del sources.__dict__["probed"]
    found = evaluate(catalog()["monitoring.gpus"], "gpu-1", sources)
    assert says in found.cause
    assert found.outcome is (Outcome.FAILED if says else Outcome.PASSED)


@pytest.mark.parametrize(
    ("none", "outcome"),
    [
        ((), Outcome.FAILED),
        (("dcgm_exporter",), Outcome.FAILED),
        (("dcgm_exporter", "kube_state_metrics"), Outcome.PASSED),
    ],
)
@pytest.mark.usefixtures("sleeps")
def test_an_alert_about_exporters_that_there_are_not_is_not_missed(
    none: tuple[str, ...], outcome: Outcome
) -> None:
    world = World()
    world.variables.update({f"gpu_monitoring_{part}": "none" for part in none})
    del world.prometheus.rules["GpusmithExporterDown"]
    assert outcomes(world)["monitoring.prometheus"] is outcome


def test_what_no_gpu_has_is_evidence() -> None:
    world = World()
    for gpu in world.prometheus.gpus:
        gpu.counters.discard("DCGM_FI_PROF_GR_ENGINE_ACTIVE")
    found = findings(world)["monitoring.gpus"]
    assert (found.outcome, found.evidence["counters_of_none"]) == (
        Outcome.PASSED,
        ["DCGM_FI_PROF_GR_ENGINE_ACTIVE"],
    )


XIDS, ECC = "DCGM_EXP_XID_ERRORS_COUNT", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"


@pytest.mark.parametrize(
    ("owner", "lacks", "gpu", "missing"),
    [
        ("managed", {XIDS}, {}, []),
        ("existing", {XIDS, ECC}, {}, [XIDS, ECC]),
        ("existing", {ECC}, {}, [ECC]),
        # What these GPUs do not have, what no rule reads, and what the record does not tell, is named in the evidence.
        ("existing", {ECC}, {"ecc_uncorrected": None, "unsupported": ["ecc_uncorrected"]}, []),
        ("existing", {"DCGM_FI_DEV_GPU_UTIL"}, {"mig_mode": "enabled"}, []),
        ("existing", {"DCGM_FI_DEV_FB_USED"}, {}, []),
        ("existing", {ECC}, None, []),
    ],
)
def test_an_exporter_of_others_gives_what_rules_read(
    owner: str, lacks: set[str], gpu: dict[str, Any] | None, missing: list[str]
) -> None:
    world = World()
    world.variables["gpu_monitoring_dcgm_exporter"] = owner
    for each in world.prometheus.gpus:
        each.counters -= lacks
    for row in world.seen["nvml"]["gpus"]:
        row.update(gpu or {})
    sources = world.sources()
    if gpu is None:
        del sources.__dict__["probed"]
    found = evaluate(catalog()["monitoring.gpus"], "gpu-1", sources)
    assert found.outcome is (Outcome.FAILED if missing else Outcome.PASSED), found.cause
    assert found.evidence["counters_of_none"] == sorted(lacks)
    assert [name for name in lacks if name in found.cause] == [name for name in lacks if name in missing]
    assert ("counters.csv" in found.next_step) is bool(missing)


@pytest.mark.parametrize(
    ("config", "notes"),
    [
        ("receivers: [{name: nobody}]", ["no receiver of Alertmanager sends messages"]),
        ("receivers: [{name: a, slack_configs: [{channel: x}]}]", []),
    ],
)
def test_alerts_that_nobody_is_told_of_are_noted(config: str, notes: list[str]) -> None:
    world = World()
    world.prometheus.config = config
    found = findings(world)["monitoring.delivery"]
    assert found.outcome is Outcome.PASSED
    assert [note.partition(":")[0] for note in found.evidence.get("notes", [])] == notes
    assert "channel" not in json.dumps(dict(found.evidence)), "where messages go is nobody's business"


def test_an_alert_that_its_rule_keeps_is_noted() -> None:
    world = World()
    kept = firing("GpusmithGpuXid", "critical", node="gpu-1")
    world.prometheus.alerts.append({**kept, "keepFiringSince": "2026-01-01T00:00:00Z"})
    world.prometheus.alerts.append(firing("GpusmithGpuXid", "critical", "pending", node="gpu-1"))
    found = findings(world)["monitoring.alerts"]
    assert found.outcome is Outcome.PASSED
    assert [row["severity"] for row in found.evidence["alerts"]] == ["critical"]
    assert found.evidence["notes"] == [
        "alert 'GpusmithGpuXid' fires: GPU 1 reported Xid 79 (its cause is gone, its rule keeps it)"
    ]


def test_the_tier_runs_by_itself_only_where_something_watches_and_no_upgrade_is_going_on() -> None:
    watched, other = World(), World()
    other.variables["gpu_monitoring_prometheus"] = "none"
    assert usual(TIERS, watched.inventory, Maintenance()) == TIERS
    for world, upgrade in ((other, Maintenance()), (watched, Maintenance("u1", "580.1.1"))):
        assert usual(TIERS, world.inventory, upgrade) == ("nodes", "cluster", "workloads")
    with pytest.raises(InputError, match="needs an inventory, which says what watches the nodes"):
        tiers_of("monitoring", ("cluster", "workloads"))


def test_the_address_of_prometheus_is_not_kept(tmp_path: Path) -> None:
    """It may have a password. A replay asks nobody, and has to know that there is one."""
    world = World()
    world.variables["gpu_monitoring_prometheus_url"] = "https://user:hunter2@prometheus"
    Suite(world.inventory, IN_PODS, nodes={}, evidence=Evidence(tmp_path / evidence.FOLDER))
    text = (tmp_path / evidence.FOLDER / evidence.RUN).read_text()
    assert "hunter2" not in text
    assert json.loads(text)["wanted"][0]["monitoring"]["prometheus_url"]
