"""Every role is tested alone, and a scenario sets what its role takes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusmith.inventory import specs
from gpusmith.paths import repo_root

MOLECULE = repo_root() / "molecule"
SCENARIOS = sorted(MOLECULE.glob("*/scenario.yml"))
ASPECTS = {"default", "alternative", "changed", "wrong", "removed", "check"}
"""What is tested of each role: values of their own kind, wrong input, removal and check mode."""
STEPS = (
    "check",
    "verify ../shared/unchanged.yml",
    "converge",
    "idempotence",
    "verify",
    "side_effect ../shared/changed.yml",
    "side_effect ../shared/refused.yml",
    "cleanup",
    "side_effect ../shared/alternative.yml",
)
"""The steps that test these, in their order."""
# Who tests the others: a test by its file and name, or why there is nothing to test.
ELSEWHERE = {
    "gpu_monitoring": {
        "default": "tests/unit/cluster/test_monitoring_objects.py::test_without_any_part_no_task_runs",
        "alternative": "tests/unit/cluster/test_monitoring_objects.py::test_an_existing_prometheus_gets_exporter_and_rules",
        "changed": "tests/unit/cluster/test_monitoring_objects.py::test_a_part_that_is_no_longer_ours_goes_and_the_others_stay",
        "wrong": "tests/unit/cluster/test_monitoring.py::test_parts_that_nobody_would_read_are_refused",
        "removed": "tests/e2e/test_6_monitoring.py::test_it_leaves_when_it_is_asked_to",
        "check": "tests/unit/plugins/test_monitoring_actions.py::test_in_check_mode_nobody_waits",
    },
    "gpu_reclaim": {
        "default": "tests/unit/plugins/test_reclaim_action.py::test_it_warns_and_then_acts_and_then_has_nothing_to_do",
        "alternative": "tests/e2e/test_6_monitoring.py::test_idle_gpus_are_taken_back_after_a_warning",
        "changed": "tests/unit/reclaim/test_owners.py::test_jobs_are_touched_only_where_they_may_be",
        "wrong": "tests/unit/inventory/test_rules.py::test_wrong_values_are_named_with_what_is_allowed",
        "removed": "it leaves annotations and Events, which go with their objects",
        "check": "tests/unit/plugins/test_reclaim_action.py::test_it_warns_and_then_acts_and_then_has_nothing_to_do",
    },
    "gpu_pipeline": {
        "default": "tests/e2e/test_5_pipeline.py::test_from_data_to_a_prediction_and_away",
        "alternative": "tests/unit/pipeline/test_manifests.py::test_what_a_site_sets_is_set",
        "changed": "tests/unit/pipeline/test_steps.py::test_another_run_makes_jobs_and_deployment_anew_and_keeps_the_volume",
        "wrong": "tests/e2e/test_5_pipeline.py::test_a_class_that_is_not_there_is_refused_before_anything_is_made",
        "removed": "tests/e2e/test_5_pipeline.py::test_from_data_to_a_prediction_and_away",
        "check": "tests/unit/plugins/test_pipeline_action.py::test_in_check_mode_nothing_is_made_and_all_is_named",
    },
    "gpu_tenants": {
        "default": "tests/unit/plugins/test_tenants_action.py::test_a_team_comes_changes_and_goes",
        "alternative": "tests/e2e/test_5_tenants.py::test_a_team_holds_no_more_than_its_quota",
        "changed": "tests/unit/plugins/test_tenants_action.py::test_a_team_comes_changes_and_goes",
        "wrong": "tests/unit/inventory/test_tenants.py::test_a_team_that_is_not_one_is_refused",
        "removed": "tests/e2e/test_5_tenants.py::test_what_leaves_the_inventory_goes_and_pods_stay",
        "check": "tests/unit/plugins/test_tenants_action.py::test_a_team_comes_changes_and_goes",
    },
    "gpu_upgrade": {
        "default": "tests/e2e/test_7_upgrade.py::test_a_group_is_upgraded_under_load",
        "alternative": "tests/long/test_upgrade.py::test_six_nodes_at_once_and_one_by_one",
        "changed": "tests/long/test_upgrade.py::test_a_broken_driver_goes_back",
        "wrong": "tests/e2e/test_7_upgrade.py::test_refusals_and_a_look_change_nothing",
        "removed": "tests/e2e/test_8_families.py::test_the_node_that_dnf_manages_is_upgraded_and_needs_no_repository_to_go_back",
        "check": "tests/e2e/test_7_upgrade.py::test_refusals_and_a_look_change_nothing",
    },
    "node_record": {
        "default": "tests/integration/probe/test_collect.py::test_the_keys_of_the_record_are_those_of_the_schema",
        "alternative": "it has one value, a deadline",
        "changed": "it looks anew at each call",
        "wrong": "tests/integration/probe/test_collect.py::test_every_section_may_fail_alone",
        "removed": "it leaves nothing on a machine",
        "check": "tests/e2e/test_2_site.py::test_check_mode_on_bare_machines",
    },
    "node_stamp": {
        "default": "tests/e2e/test_2_site.py::test_nodes_are_labelled_stamped_and_open",
        "alternative": "tests/e2e/test_2_site.py::test_bare_machines_become_nodes",
        "changed": "tests/e2e/test_2_site.py::test_second_run_changes_nothing",
        "wrong": "tests/unit/plugins/test_node_stamp.py::test_a_node_of_another_name_than_its_host",
        "removed": "tests/e2e/test_7_removal.py::test_a_free_node_leaves_and_its_machine_is_clean",
        "check": "tests/e2e/test_2_site.py::test_check_mode_on_bare_machines",
    },
    "preflight": {
        "default": "tests/e2e/test_2_site.py::test_bare_machines_become_nodes",
        "alternative": "tests/e2e/test_8_families.py::test_both_families_are_brought_in_and_left_alone",
        "changed": "it changes nothing on a machine",
        "wrong": "tests/e2e/test_4_refusals.py::test_site_refuses",
        "removed": "it leaves nothing on a machine",
        "check": "tests/e2e/test_2_site.py::test_check_mode_on_bare_machines",
    },
    "serving_change": {
        "default": "tests/long/test_serving_runtime.py::test_newer_releases_change_serving_nodes_one_after_another",
        "alternative": "tests/long/test_serving_runtime.py::test_a_release_that_does_not_start_is_taken_back_and_stops_the_rest",
        "changed": "tests/e2e/test_4_refusals.py::test_a_setting_that_breaks_the_kubelet_reaches_one_node_and_is_taken_back",
        "wrong": "tests/integration/roles/test_serving_change.py::test_no_node_that_serves_is_touched_after_one_that_failed",
        "removed": "what it keeps of a change goes with the proof of it",
        "check": "roles pass it by in check mode, since nothing has to be proved",
    },
}


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())["scenario"]


by_scenario = pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.parent.name)


def test_every_role_has_a_scenario_or_is_tested_elsewhere() -> None:
    roles = {path.name for path in (repo_root() / "roles").iterdir()}
    assert {path.parent.name for path in SCENARIOS} == roles - set(ELSEWHERE)


@pytest.mark.parametrize("role", sorted(ELSEWHERE))
def test_what_tests_a_role_elsewhere_is_there(role: str) -> None:
    assert set(ELSEWHERE[role]) == ASPECTS
    tests = [place.split("::") for place in ELSEWHERE[role].values() if "::" in place]
    assert [name for file, name in tests if not re.search(rf"^def {name}\(", text(file), re.MULTILINE)] == []
    # A reason is a sentence, and no name that is not found.
    assert [why for why in ELSEWHERE[role].values() if "::" not in why and len(why.split()) < 4] == []


def text(file: str) -> str:
    return (repo_root() / file).read_text()


def test_the_steps_of_scenarios_test_all_that_they_have() -> None:
    config = yaml.safe_load((repo_root() / ".config/molecule/config.yml").read_text())
    steps = config["scenario"]["test_sequence"]
    assert [step for step in steps if step in STEPS] == list(STEPS)
    # A step whose playbook is not there is left out.
    named = [step.partition(" ")[2] for step in steps if " " in step]
    assert [path for path in named if not (MOLECULE / "default" / path).is_file()] == []


@by_scenario
def test_a_scenario_has_what_is_tested_of_each_role(path: Path) -> None:
    scenario = load(path)
    assert scenario["role"] == path.parent.name
    assert "test_sequence" not in (path.parent / "molecule.yml").read_text()
    # Each row proves something, and at least one of all rows tells these values from others.
    assert scenario["seen"] + scenario["default"]["seen"]
    changed = scenario["changed"]
    assert all([scenario["told"], changed["seen"], changed["vars"], scenario["wrong"]])
    assert all(row["words"] and row["vars"] for row in scenario["wrong"])
    # The facts of one row are there for the next.
    assert len({tuple(row["vars"]) for row in scenario["wrong"]}) == 1
    given = [scenario["default"], changed, *scenario["wrong"], {"vars": {}, **scenario["alternative"]}]
    assert {name for each in given for name in each["vars"]} <= set(specs.load().of(scenario["role"]))


@by_scenario
def test_values_from_bare_machines_are_tried_here_or_elsewhere(path: Path) -> None:
    alternative = load(path)["alternative"]
    ((kind, said),) = [(key, value) for key, value in alternative.items() if key != "seen"]
    if kind == "vars":
        assert said
        assert alternative["seen"]
    elif kind == "elsewhere":
        assert said
        assert [file for file, variable in said.items() if variable not in text(file)] == []
    else:
        assert kind == "none"
        assert len(said.split()) > 4


@by_scenario
def test_what_a_removal_may_leave_has_a_reason(path: Path) -> None:
    left = re.search(r"    left:\n((?:      .*\n)*)", path.read_text())
    commented = re.findall(r"#.*\n +- ", left[1]) if left else []
    assert len(commented) == len(load(path)["removed"]["left"])
