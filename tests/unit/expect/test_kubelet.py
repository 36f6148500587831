"""Settings of a kubelet that does not read them."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.expect.plans import kubernetes_node
from tests.unit.expect.converged import KUBELET_FILE, ORDER_FILE, SETTINGS, converged_record

FILE = next(iter(KUBELET_FILE))


def plan(config_dir: str | None, *, joined: bool = True, is_set: bool = True) -> dict[str, Any]:
    record = converged_record()
    record["kubernetes"].update(joined=joined, config_dir=config_dir)
    del record["managed_files"][FILE]
    return kubernetes_node(record, {**SETTINGS["kubernetes_node"], "set": is_set})


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
    assert (order in kubernetes_node(record, SETTINGS["kubernetes_node"])["files"]) is not joined
