"""What the rules of role gpu_monitoring name is there: metrics, codes, pages. promtool tests what they do (tests/monitoring)."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
import yaml

from gpusmith.data import xids
from gpusmith.data.monitoring import counter_rows, files
from gpusmith.inventory.specs import load as specs
from gpusmith.monitoring import rules
from gpusmith.monitoring.rules import Rule
from tests.unit.monitoring.metrics import METRIC, OF_KUBE_STATE_METRICS, known

FILLED_IN = re.compile(r"\$labels\.(\w+)")
PAIR = re.compile(r'(\w+)="([^"]*)"')

each_alert = pytest.mark.parametrize(
    "rule",
    [rule for found in rules.alerts().values() for rule in found],
    ids=lambda rule: "-".join((rule.alert, *rule.labels.values())),
)


def test_every_metric_is_there() -> None:
    named = {name for rule in rules.load() for name in METRIC.findall(rule.expr)}
    assert named - known() == set()
    # A record that nothing reads is for dashboards.
    assert (OF_KUBE_STATE_METRICS | {"DCGM_EXP_XID_ERRORS_COUNT"}) - named == set()


def test_counters_are_what_the_exporter_can_read() -> None:
    """It ends at a line that has not three fields, at a field that it does not know and at another type."""
    names = [name for name, _, _ in counter_rows()]
    assert len(names) == len(set(names))
    assert {kind for _, kind, _ in counter_rows()} == {"gauge", "counter"}
    assert [name for name in names if not re.fullmatch(r"DCGM_(FI|EXP)_[A-Z_]+", name)] == []


def test_xids_that_are_accepted_stand_at_one_place() -> None:
    default = specs().variables["validation_accepted_xids"].default
    assert "|".join(map(str, default)) == rules.ACCEPTED_XIDS
    texts = [path.read_text() for path in (files() / "rules").glob("*.yml")]
    assert sum(text.count(f'xid!~"{rules.ACCEPTED_XIDS}"') for text in texts) == 1


def test_an_xid_of_applications_is_a_warning() -> None:
    codes = {code for code, row in xids.load().codes.items() if row.kind.name == "application"}
    for rule in rules.alerts()["GpusmithGpuXid"]:
        (listed,) = re.findall(r'xid=~"([0-9|]+)"', rule.expr)
        assert {int(code) for code in listed.split("|")} == codes, "class 'application' of data/xid.yml"
        assert rule.severity == ("critical" if "unless" in rule.expr else "warning")


@each_alert
def test_an_alert_tells_a_person_what_to_do(rule: Rule) -> None:
    assert rule.severity in ("critical", "warning", "info", "none")
    assert set(rule.annotations) == {"summary", "description", "runbook_url"}
    assert (
        rule.annotations["runbook_url"]
        == f"https://github.com/gpusmith/gpusmith/blob/main/docs/alerts.md#{rule.alert.lower()}"
    )
    assert len(rule.annotations["summary"]) < 140
    assert rule.annotations["description"].endswith((".", "{{ end }}"))


@cache
def fired(root: Path) -> list[dict[str, str]]:
    """Labels of the alerts that promtool's tests expect to fire."""
    return [
        dict(PAIR.findall(sample["labels"]))
        for path in (root / "tests/monitoring").glob("*.test.yml")
        for test in yaml.safe_load(path.read_text())["tests"]
        for row in test["promql_expr_test"]
        for sample in row["exp_samples"]
        if sample["labels"].startswith("ALERTS")
    ]


@each_alert
def test_what_is_filled_in_is_a_label_of_the_alert(root: Path, rule: Rule) -> None:
    has = [
        set(each) for each in fired(root) if each.items() >= {"alertname": rule.alert, **rule.labels}.items()
    ]
    assert has, "no test of promtool has it fire"
    assert set(FILLED_IN.findall(" ".join(rule.annotations.values()))) <= has[0]


def test_only_what_harms_work_is_critical() -> None:
    critical = {
        name for name, found in rules.alerts().items() for rule in found if rule.severity == "critical"
    }
    assert critical == {
        "GpusmithGpuXid",
        "GpusmithGpuUncorrectableEcc",
        "GpusmithGpuRowRemapFailed",
        "GpusmithGpuNotAllocatable",
    }
    assert len(rules.alerts()) == 14


def test_one_machine_has_any_number_of_gpus() -> None:
    (expected,) = [rule for rule in rules.load() if rule.record == "gpusmith:node_gpus_expected"]
    terms = re.findall(r'label_gpusmith_io_gpus="(\d+)"} \* (\d+)\)', expected.expr)
    assert terms == [(str(number), str(number)) for number in range(1, 17)]
