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
JOIN = {
    "kubernetes_node_version": "1.36.3",
    "kubernetes_node_repository": {"uris": ["http://a"]},
    "kubernetes_node_control_plane_endpoint": "10.0.0.1:6443",
    "kubernetes_node_token_host": "cp-1",
}

TOKEN = "kubernetes_node_token_host"


def refused(
    variables: Mapping[str, Any], joins: bool = False, other: Mapping[str, Any] | None = None
) -> list[str]:
    rows = {"gpu-1": variables, "gpu-2": variables if other is None else other}
    return [str(row) for row in check_places(rows, GROUPS, joins)]


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


def test_files_and_folders_of_this_machine_are_there(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.touch()
    folder = str(tmp_path / "new" / "reports")
    assert refused({"ansible_ssh_private_key_file": str(file), "gpusmith_report_dir": folder}) == []
    (message,) = refused({"ansible_private_key_file": str(tmp_path / "few")})
    assert f"names the file '{tmp_path}/few', which does not exist on this machine." in message
    for name in ("gpusmith_report_dir", "gpu_upgrade_report_dir"):
        (message,) = refused({name: str(file / "reports")})
        assert f"but '{file}' is no folder" in message


def test_what_a_join_needs_is_asked_for_only_where_nodes_join() -> None:
    assert refused({}) == []
    assert refused(JOIN, joins=True) == []
    assert refused({"kubernetes_node_owner": "existing"}, joins=True) == []
    messages = refused({}, joins=True)
    assert [message.split("'")[5] for message in messages] == [
        "kubernetes_node_version", "kubernetes_node_control_plane_endpoint", "kubernetes_node_token_host",
        "kubernetes_node_repository",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("kubernetes_node_version", "1.36", "all three numbers"),
        ("kubernetes_node_control_plane_endpoint", "https://a:6443", "must be host:port"),
        ("kubernetes_node_control_plane_endpoint", "a", "must be host:port"),
        ("kubernetes_node_repository", {"uris": []}, "has no 'uris'"),
    ],
)
def test_what_cannot_join_is_named(name: str, value: Any, says: str) -> None:
    (message,) = refused({**JOIN, name: value}, joins=True)
    assert says in message


def test_a_template_that_needs_facts_is_left_to_who_uses_it() -> None:
    assert refused(dict.fromkeys(JOIN, "{{ ansible_facts.x }}"), joins=True) == []


def test_names_with_capitals_cannot_join() -> None:
    (message,) = map(str, check_places({"GPU-1": JOIN}, GROUPS, True))
    assert "Name the host 'gpu-1' in the inventory" in message
