"""The rules as a site gets them: accepted Xids in their place, disabled alerts left out, a file that cannot be read named."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gpusmith.data import monitoring
from gpusmith.errors import InputError
from gpusmith.inventory import specs
from gpusmith.monitoring import site_rules
from gpusmith.monitoring.rules import load

GROUPS = """groups:
- name: gpus
  rules:
  - record: x
    expr: count(up)
  - alert: GpusmithXid
    expr: xids{xid!="", xid!~"13|31"} > 0
    annotations: {summary: "GPU {{ $labels.gpu }}"}
- name: nodes
  rules:
  - alert: GpusmithDown
    expr: up == 0
"""


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = tmp_path / monitoring.FILES / "rules/some.yml"
    path.parent.mkdir(parents=True)
    path.write_text(GROUPS)
    monkeypatch.setattr(monitoring, "repo_root", lambda: tmp_path)
    return path


def test_a_name_that_is_like_an_alert_in_two_rules_is_told_once() -> None:
    with pytest.raises(InputError) as refused:
        site_rules.rule_files(disabled=["GpusmithGpuXyd"])
    assert str(refused.value.hint).count("'GpusmithGpuXid'") == 1


@pytest.mark.parametrize(
    ("accepted", "codes"),
    [
        ([], "13|31"), ([[79, 13]], "13|79"), ([[13, 31, 79], [79, 13, 5]], "13|79"), ([[]], ""),
        ([False, [79, 13]], "13"), ([False], "13|31|43|45|68|109"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("rules")
def test_an_xid_is_accepted_that_is_in_all_lists(accepted: list[list[int] | bool], codes: str) -> None:
    (text,) = site_rules.rule_files(accepted).values()
    assert f'xid!="", xid!~"{codes}"' in text
    assert yaml.safe_load(text)["groups"][0]["rules"][1]["annotations"] == {
        "summary": "GPU {{ $labels.gpu }}"
    }


@pytest.mark.usefixtures("rules")
def test_a_disabled_alert_is_left_out_and_a_misspelt_one_named() -> None:
    (text,) = site_rules.rule_files(disabled=["GpusmithDown"]).values()
    assert [group["name"] for group in yaml.safe_load(text)["groups"]] == ["gpus"]
    with pytest.raises(
        InputError, match=r"names alert 'GpusmithDonw', which there is not. Alerts are 'GpusmithDown'"
    ):
        site_rules.rule_files(disabled=["GpusmithDonw"])


@pytest.mark.parametrize(
    ("jobs", "told"),
    [
        (None, ["dcgm-exporter", "kube-state-metrics"]),
        (["dcgm-exporter", "kube-state-metrics", "prometheus"], ["dcgm-exporter", "kube-state-metrics"]),
        (["kube-state-metrics", "prometheus"], ["kube-state-metrics"]),
        (["dcgm-exporter", "prometheus"], ["dcgm-exporter"]),
        (["prometheus"], []),
    ],
)
def test_nobody_is_told_of_an_exporter_that_there_is_not(jobs: list[str] | None, told: list[str]) -> None:
    found = [
        rule
        for text in site_rules.rule_files(jobs=jobs).values()
        for group in yaml.safe_load(text)["groups"]
        for rule in group["rules"]
    ]
    down = [rule["labels"]["exporter"] for rule in found if rule.get("alert") == "GpusmithExporterDown"]
    assert down == told
    assert len(found) == len(load()) - 2 + len(told)


@pytest.mark.parametrize("text", ["groups: [", "", "groups: [{name: x, rules: [{alert: y}]}]", "- a"])
def test_a_file_that_prometheus_could_not_read_is_named(rules: Path, text: str) -> None:
    rules.write_text(text)
    with pytest.raises(InputError, match=r"files/rules/some.yml' has no rules that Prometheus could read"):
        site_rules.rule_files()


def test_the_rules_come_with_the_xids_that_the_suite_accepts() -> None:
    default = specs.load().variables["validation_accepted_xids"].default
    assert site_rules.rule_files() == site_rules.rule_files([default])
    assert site_rules.rule_files() != site_rules.rule_files([[79]])
