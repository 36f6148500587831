"""What services get in their environment, on machines that join and on nodes that serve."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import pytest

from gpusmith.expect.environment import EMPTY
from gpusmith.problems import Cure
from tests.unit.expect.converged import (
    ORDER_FILE,
    RUNTIME_UNIT_FILE,
    SETTINGS,
    Record,
    converged_record,
    environment,
)
from tests.unit.expect.role_plans import containerd_plan, kubelet_plan

TEXT = "# head\nHTTPS_PROXY=http://proxy:3128\n"
ROLES = {
    "containerd": (containerd_plan, "containerd", RUNTIME_UNIT_FILE, Cure.CONTAINERD),
    "kubernetes_node": (kubelet_plan, "kubelet", ORDER_FILE, Cure.KUBELET),
}


def plan(role: str, record: Record, text: str = TEXT) -> Mapping[str, Any]:
    asks, unit, drop_in, _cure = ROLES[role]
    found: Mapping[str, Any] = asks(
        record, {**SETTINGS[role], "environment": environment(unit, drop_in, text)}
    )
    return found


def file(role: str) -> str:
    return f"/etc/default/gpusmith-{ROLES[role][1]}"


def with_file(role: str, text: str) -> Record:
    record = converged_record()
    record["managed_files"][file(role)] = hashlib.sha256(text.encode()).hexdigest()
    return record


def without_drop_in(role: str) -> Record:
    record = converged_record()
    del record["managed_files"][next(iter(ROLES[role][2]))]
    return record


@pytest.mark.parametrize("role", ROLES)
def test_a_node_that_serves_gets_the_file_alone(role: str) -> None:
    found = plan(role, converged_record())
    assert found["environment"] == {file(role): TEXT}
    assert found["files"] == [file(role)]
    assert found["cures"] == [ROLES[role][3]]
    assert found["drift"] == []
    assert plan(role, with_file(role, TEXT))["environment"] == {}


@pytest.mark.parametrize("role", ROLES)
def test_a_machine_that_is_to_join_gets_the_drop_in_also_without_a_proxy(role: str) -> None:
    record, drop_in = without_drop_in(role), ROLES[role][2]
    record["kubernetes"]["joined"] = False
    assert plan(role, record, text="")["environment"] == drop_in
    assert plan(role, record)["environment"] == {**drop_in, file(role): TEXT}


@pytest.mark.parametrize("role", ROLES)
def test_a_node_that_joined_without_the_drop_in_keeps_what_it_has_and_is_named(role: str) -> None:
    record = without_drop_in(role)
    found = plan(role, record)
    assert (found["environment"], found["files"], found["problems"]) == ({}, [], [])
    assert len(found["drift"]) == 1
    assert found["drift"][0].startswith(f"'{ROLES[role][1]}' does not use the inventory's proxy")
    assert "site.yml -l gpu-1" in found["drift"][0]
    assert f"set '{ROLES[role][1]}_proxy: {{}}' for the node" in found["drift"][0]
    # Where nothing is wanted, nothing is missing.
    assert plan(role, record, text="")["drift"] == []


@pytest.mark.parametrize("role", ROLES)
def test_what_leaves_the_inventory_leaves_the_service(role: str) -> None:
    assert plan(role, with_file(role, TEXT), text="")["environment"] == {file(role): EMPTY}
    assert plan(role, with_file(role, EMPTY), text="")["environment"] == {}


@pytest.mark.parametrize(
    ("joined", "changed", "due"), [(False, True, True), (False, False, False), (True, True, False)]
)
def test_a_drop_in_that_systemd_has_not_read_is_read_where_no_pods_run(
    joined: bool, changed: bool, due: bool
) -> None:
    record = converged_record()
    record["kubernetes"]["joined"] = joined
    record["services"]["containerd"]["reload_due"] = changed
    assert plan("containerd", record, text="")["reload"] is due
