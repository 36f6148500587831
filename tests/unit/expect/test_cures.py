"""What the suite says that site.yml repairs, a role's plan wants done, and the other way round.

Both judge one record of a node by one record of what is wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from gpusmith.checks.findings import NotAsked
from gpusmith.expect import plans
from gpusmith.expect.steps import change_driver, change_runtime, upgrade_driver
from gpusmith.node.records import parse
from gpusmith.problems import SITE, Cure, Problem
from gpusmith.wanted.node import NodeWanted
from tests.faults import FAULTS
from tests.unit.checks.judged import RECORD_CHECKS, Facts
from tests.unit.expect.converged import (
    ORDER_FILE,
    PLANS,
    RUNTIME_UNIT_FILE,
    VARIABLES,
    Record,
    converged_record,
    same_plans,
)
from tests.unit.hosts import VERSION


def _operands(record: Record) -> dict[str, Any]:
    return plans.gpu_operands(record, NodeWanted(name="gpu-1"), {})


# What this role does on a machine is foretold by the action itself.
ALL_PLANS = {**same_plans(), "gpu_operands": _operands}


def reported(facts: Facts, record: Record, **changes: Any) -> dict[str, Sequence[Problem]]:
    """Problems by check."""
    found, of = {}, facts(record, **{**VARIABLES, **changes})
    for name, check in RECORD_CHECKS.items():
        try:
            found[name] = check(of)
        except NotAsked:
            continue
    return found


def of_site(cures: Sequence[str]) -> frozenset[Cure]:
    return frozenset(Cure(cure) for cure in cures) & SITE


def broken(fault: str) -> Record:
    record = converged_record()
    FAULTS[fault].breaks(record)
    return record


def test_nothing_is_to_be_done_where_nothing_is_wrong(facts: Facts) -> None:
    record = converged_record()
    for role, plan in ALL_PLANS.items():
        answer = plan(record)
        assert (answer["problems"], answer["cures"], answer["files"]) == ([], [], []), role
    assert [problem for found in reported(facts, record).values() for problem in found] == []


@pytest.mark.parametrize("fault", FAULTS)
def test_suite_and_roles_name_the_same_cures(fault: str, facts: Facts) -> None:
    record = broken(fault)
    wanted = FAULTS[fault].repairs
    due = {role: of_site(plan(record)["cures"]) for role, plan in ALL_PLANS.items()}
    assert {role: cures for role, cures in due.items() if cures} == wanted
    found = reported(facts, record)
    said = {problem.cure for problems in found.values() for problem in problems} & SITE
    assert said == frozenset().union(*wanted.values())
    # Who reads that site.yml helps can go by it, and who could be helped by it reads so.
    for name, problems in found.items():
        for problem in problems:
            # A serving node gets the other kind of module in two steps, of which site.yml is the second.
            step = problem.next_step
            for others in (upgrade_driver("gpu-1", VERSION), change_driver("gpu-1"), change_runtime("gpu-1")):
                step = step.replace(others, "")
            assert ("site.yml" in step) is (problem.cure in SITE), (name, problem)
            assert (step != problem.next_step) is (problem.cure is Cure.UPGRADE), (name, problem)


OWN_PACKAGES = (
    "nvidia-driver-cuda",
    "nvidia-modprobe",
    "nvidia-kernel-open-dkms",
    "nvidia-fabricmanager",
    "libnvidia-nscq",
)


@pytest.mark.parametrize("name", OWN_PACKAGES)
def test_a_package_that_somebody_removed_is_due_and_reported(name: str, facts: Facts) -> None:
    record, changes = converged_record(), {"nvidia_driver_components": ["nscq"]}
    del record["packages"][name]
    assert Cure.PACKAGES in same_plans(**changes)["nvidia_driver"](record)["cures"]
    causes = [problem.cause for problem in reported(facts, record, **changes)["nodes.driver-versions"]]
    assert any(f"'{name}'" in cause for cause in causes), causes


def test_a_driver_that_others_brought_need_not_have_our_packages(facts: Facts) -> None:
    record = converged_record()
    record["managed_files"] = {}
    del record["packages"]["nvidia-modprobe"]
    assert reported(facts, record)["nodes.driver-versions"] == []


def test_settings_that_no_driver_can_meet_are_named(facts: Facts) -> None:
    """Debian has no fabric manager."""
    changes = {"nvidia_driver_package_layout": "distribution", "nvidia_driver_version": "550.163.01"}
    (first, *_rest) = reported(facts, converged_record(), **changes)["nodes.driver-versions"]
    assert "this package layout has no fabric manager" in first.cause
    assert "nvidia_driver_package_layout" in first.next_step


@pytest.mark.parametrize(
    ("flavour", "step"), [("open", upgrade_driver("gpu-1", VERSION)), ("proprietary", change_driver("gpu-1"))]
)
def test_only_another_kind_of_module_takes_a_node_out_of_the_cluster(flavour: str, step: str) -> None:
    record = converged_record()
    record["module"]["flavour"] = flavour
    assert PLANS["nvidia_driver"](record)["change_driver"] == step


@pytest.mark.parametrize("cure", sorted(SITE - {Cure.FILES, Cure.KUBELET, Cure.LABELS, Cure.OPERANDS}))
def test_each_cure_is_walked(cure: Cure) -> None:
    assert any(cure in cures for fault in FAULTS.values() for cures in fault.repairs.values())


# Contents of files are known to roles alone; the suite sees what they do.
FILES = [
    (path, role, plan)
    for path in converged_record()["managed_files"]
    for role, plan in PLANS.items()
    if path in plan({**converged_record(), "managed_files": {}})["files"]
]


def test_every_file_of_ours_is_a_roles() -> None:
    # Drop-ins of units are written before a machine joins.
    ours = set(converged_record()["managed_files"]) - {*ORDER_FILE, *RUNTIME_UNIT_FILE}
    assert {path for path, _role, _plan in FILES} == ours


@pytest.mark.parametrize(("path", "role", "plan"), FILES)
@pytest.mark.parametrize("change", ["missing", "another"])
def test_files_that_are_not_as_wanted_are_written(path: str, role: str, plan: Any, change: str) -> None:
    record = converged_record()
    if change == "missing":
        del record["managed_files"][path]
    else:
        record["managed_files"][path] = "0" * 64
    answer = plan(record)
    assert answer["files"] == [path], role
    assert set(answer["cures"]) < {Cure.FILES, Cure.HOST, Cure.CONTAINERD, Cure.KUBELET}
    assert f"file '{path}'" in answer["problems"][0]


def test_a_registry_that_left_the_inventory_is_removed_unless_others_wrote_it() -> None:
    record, left = converged_record(), "/etc/containerd/certs.d/left.example:5000/hosts.toml"
    record["managed_files"][left] = "0" * 64
    assert PLANS["containerd"](record)["cures"] == []
    record["marked_files"] = sorted(record["managed_files"])
    answer = PLANS["containerd"](record)
    assert answer["cures"] == ["containerd"]
    assert answer["problems"] == [
        f"file '{left}' is still there, and the inventory does not list it any more"
    ]


def test_a_missing_link_makes_the_role_start_its_unit() -> None:
    # The role counted links, and repaired nothing as long as their number was right.
    record = broken("no-char-link")
    record["dev"]["char_links"].append("195:7")
    assert PLANS["nvidia_container_toolkit"](record)["start_unit"]
    assert not PLANS["nvidia_container_toolkit"](converged_record())["start_unit"]


@pytest.mark.parametrize("role", PLANS)
def test_a_plan_is_made_of_a_machine_that_has_nothing(role: str) -> None:
    answer = PLANS[role]({"schema": "gpusmith.probe/1"})
    assert answer["problems"]
    assert of_site(answer["cures"])


@pytest.mark.parametrize("role", ["containerd", "nvidia_container_toolkit"])
@pytest.mark.parametrize("schema", [2, 3])
def test_a_drop_in_has_the_schema_of_the_root_file(role: str, schema: int) -> None:
    # Somebody put an older root file back: containerd refuses drop-ins that are newer.
    record = converged_record()
    record["containerd"]["root_schema"] = schema
    answer = PLANS[role](record)
    assert (answer["cures"], len(answer["files"])) == (["containerd"], 1)
    # Without a root file the role writes one, in the newest schema that the release reads.
    record["containerd"]["root_schema"] = None
    assert PLANS[role](record)["files"] == []


def test_a_plan_needs_a_record() -> None:
    for plan in PLANS.values():
        with pytest.raises(Exception, match="node_state"):
            plan({})


def test_cures_of_a_serving_node_are_never_a_new_driver() -> None:
    record = converged_record()
    record["packages"]["libcuda1"]["version"] = "580.95.05-1"
    assert PLANS["nvidia_driver"](record)["cures"] == ["upgrade"]
    record["kubernetes"]["joined"] = False
    assert PLANS["nvidia_driver"](record)["cures"] == ["packages"]
    assert parse(record).kubernetes.joined is False
