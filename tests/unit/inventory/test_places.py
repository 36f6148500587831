"""Hosts, files and folders that variables name are there before a machine is changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpusmith.inventory.places import check_places

GROUPS = {
    "all": ["cp-1", "gpu-1", "gpu-2"],
    "gpu_nodes": ["gpu-1", "gpu-2"],
    "kube_control_plane": ["cp-1"],
    "empty": [],
}
TOKEN = "kubernetes_node_token_host"


def refused(variables: Mapping[str, Any], other: Mapping[str, Any] | None = None) -> list[str]:
    rows = {"gpu-1": variables, "gpu-2": variables if other is None else other}
    return [str(row) for row in check_places(rows, GROUPS)]


@pytest.mark.parametrize("name", ["cp-1", "gpu-2", "localhost", ""])
def test_a_host_that_the_inventory_has_is_fine(name: str) -> None:
    assert refused({TOKEN: name}) == []


def test_a_host_that_no_inventory_has_is_named() -> None:
    (message,) = refused({TOKEN: "cp-9"})
    assert message == (
        "Hosts 'gpu-1', 'gpu-2': 'kubernetes_node_token_host' names 'cp-9', which is no host of the inventory."
        " Machines of 'kube_control_plane' are 'cp-1'."
    )
    (message,) = refused({TOKEN: "cp-9"}, other={})
    assert message.startswith("Host 'gpu-1': ")


def test_a_group_is_no_host() -> None:
    (message,) = refused({TOKEN: "kube_control_plane"})
    assert "'kube_control_plane' is a group. Name one of its hosts: 'cp-1'." in message
    (message,) = refused({TOKEN: "empty"})
    assert "the group has none" in message


def test_folders_can_be_made(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.touch()
    assert refused({"gpusmith_report_dir": str(tmp_path / "new" / "reports")}) == []
    for name in ("gpusmith_report_dir", "gpu_upgrade_report_dir"):
        (message,) = refused({name: str(file / "reports")})
        assert f"but '{file}' is no folder" in message


def test_a_template_that_needs_facts_is_left_to_who_uses_it() -> None:
    assert refused({TOKEN: "{{ ansible_facts.x }}"}) == []
