"""Settings of a kubelet that does not read them, or would not start with them."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.expect.kubelet import expired
from gpusmith.node.records import parse
from tests.unit.expect.converged import KUBELET_FILE, ORDER_FILE, SETTINGS, converged_record
from tests.unit.expect.role_plans import kubelet_plan

FILE = next(iter(KUBELET_FILE))


def plan(config_dir: str | None, *, joined: bool = True, is_set: bool = True) -> dict[str, Any]:
    record = converged_record()
    record["kubernetes"].update(joined=joined, config_dir=config_dir)
    del record["managed_files"][FILE]
    return kubelet_plan(record, {**SETTINGS["kubernetes_node"], "config": {"maxPods": 20} if is_set else {}})


@pytest.mark.parametrize(
    ("config_dir", "started"),
    [("", "without '--config-dir'"), ("/etc/other", "with '--config-dir=/etc/other'")],
)
def test_what_a_kubelet_does_not_read_is_named_and_not_written(config_dir: str, started: str) -> None:
    found = plan(config_dir)
    # Nothing is to be done, so that nothing is restarted.
    assert (found["problems"], found["files"], found["cures"]) == ([], [], [])
    assert len(found["drift"]) == 1
    assert found["drift"][0].startswith(f"its kubelet runs {started}, so it does not read '{FILE}'")
    assert "add '--config-dir=/etc/kubernetes/kubelet.conf.d'" in found["drift"][0]
    # Where the inventory sets nothing, nothing is missing.
    assert plan(config_dir, is_set=False)["drift"] == []


@pytest.mark.parametrize(
    ("config_dir", "joined"), [(None, True), ("/etc/kubernetes/kubelet.conf.d", True), ("", False)]
)
def test_what_a_kubelet_reads_or_will_read_is_written(config_dir: str | None, joined: bool) -> None:
    found = plan(config_dir, joined=joined)
    assert found["files"] == [FILE]
    assert found["drift"] == []


@pytest.mark.parametrize("joined", [True, False])
def test_a_unit_of_a_node_that_serves_gets_no_drop_in_that_systemd_does_not_read(joined: bool) -> None:
    record = converged_record()
    record["kubernetes"]["joined"] = joined
    order = next(iter(ORDER_FILE))
    del record["managed_files"][order]
    assert (order in kubelet_plan(record, SETTINGS["kubernetes_node"])["files"]) is not joined


@pytest.mark.parametrize(
    ("field", "manager", "state", "policy"),
    [("cpuManagerPolicy", "cpu", "none", "static"), ("memoryManagerPolicy", "memory", "None", "Static")],
)
def test_a_policy_that_a_serving_kubelet_would_not_start_with_is_named_and_not_written(
    field: str, manager: str, state: str, policy: str
) -> None:
    record = converged_record()
    record["kubernetes"][f"{manager}_policy"] = state
    del record["managed_files"][FILE]

    def asked(**config: str) -> dict[str, Any]:
        return kubelet_plan(record, {**SETTINGS["kubernetes_node"], "config": config})

    found = asked(**{field: policy})
    assert (found["problems"], found["files"], found["cures"]) == ([], [], [])
    (drift,) = found["drift"]
    assert f"keeps state of {manager} manager policy '{state}'" in drift
    assert "playbooks/remove_nodes.yml -l gpu-1'" in drift
    # What it has, what it keeps no state of, and what a join brings.
    assert asked(**{field: state})["files"] == asked(maxPods="20")["files"] == [FILE]
    record["kubernetes"]["joined"] = False
    assert asked(**{field: policy})["files"] == [FILE]


@pytest.mark.parametrize(
    ("until", "joined", "is_over"),
    [(1.0, True, True), (2.0, True, True), (3.0, True, False), (None, True, False), (1.0, False, False)],
)
def test_a_certificate_that_has_expired_is_named_with_the_way_back(
    until: float | None, joined: bool, is_over: bool
) -> None:
    record = converged_record()
    record["host"]["time_unix"] = 2.0
    record["kubernetes"].update(joined=joined, client_expires_unix=until)
    found = expired(parse(record), "gpu-1")
    assert bool(found) is is_over
    for problem in found:
        assert "expired on 1970-01-01" in problem.cause
        assert "remove_nodes.yml -l gpu-1'" in problem.next_step
