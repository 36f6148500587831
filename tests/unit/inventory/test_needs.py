"""Everything that has to be given is asked for at once, by the roles that need it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gpusmith.inventory import guard
from gpusmith.inventory.needs import IMAGES, NEEDS, OF_THE_SUITE, check_needs
from gpusmith.inventory.specs import load
from gpusmith.inventory.target import Run
from tests.unit.keys import KEY

REPOSITORY = {"uris": ["http://a"], "suites": ["./"], "key": KEY}
FULL: dict[str, Any] = {
    "gpusmith_gpu_count": 8,
    "nvidia_driver_version": "580",
    "nvidia_driver_repository": REPOSITORY,
    "containerd_version": "2.3.7",
    "containerd_repository": REPOSITORY,
    "nvidia_container_toolkit_version": "1.20.1",
    "nvidia_container_toolkit_repository": REPOSITORY,
    "kubernetes_node_version": "1.36.3",
    "kubernetes_node_repository": REPOSITORY,
    "kubernetes_node_control_plane_endpoint": "10.0.0.1:6443",
    "kubernetes_node_token_host": "cp-1",
    IMAGES: {"cuda": "a", "pytorch": "b", "tensorflow": "c"},
}


def told(values: Mapping[str, Any], *roles: str, node: str = "n", **more: Any) -> list[str]:
    return [str(row) for row in check_needs({node: values}, roles or tuple(NEEDS), load(), **more)]


def named(messages: list[str]) -> list[str]:
    return [message.split("'")[3] for message in messages]


def test_all_that_is_needed_is_named_at_once() -> None:
    assert sorted(named(told({}))) == sorted(FULL)
    assert named(told({}, only=OF_THE_SUITE)) == list(OF_THE_SUITE)
    assert told(FULL) == []
    assert told(dict.fromkeys(FULL, "{{ ansible_facts.x }}")) == []
    (message,) = map(str, check_needs({"a": {}, "b": {}, "c": FULL}, ["preflight"], load()))
    assert message.startswith("Hosts 'a', 'b': 'gpusmith_gpu_count' is not set. ")


@pytest.mark.parametrize("name", FULL)
def test_each_of_them_is_missed(name: str) -> None:
    assert named(told({**FULL, name: None})) == [name]


@pytest.mark.parametrize(
    ("values", "role"),
    [
        *[
            ({f"{role}_owner": "existing"}, role)
            for role in ("nvidia_driver", "containerd", "kubernetes_node")
        ],
        ({"nvidia_container_toolkit_owner": "existing"}, "nvidia_container_toolkit"),
        ({"nvidia_driver_state": "absent"}, "nvidia_driver"),
        ({"gpusmith_validate": "never"}, "node_stamp"),
    ],
)
def test_what_nobody_manages_here_needs_nothing(values: dict[str, Any], role: str) -> None:
    assert told({}, role)
    assert told(values, role) == []


def test_a_run_asks_for_what_its_parts_need() -> None:
    class Hosts:
        def written(self, _host: str) -> Mapping[str, Any]:
            return {}

        def filled(self, _host: str, name: str) -> Any:
            raise KeyError(name)

    known = ["preflight", "containerd", "nvidia_driver"]
    run = Run("gpu_nodes", ["n"], ["n"], tags=["containerd"])
    found = guard.refusals(run, Hosts(), load(), cluster=False, tags=known)
    assert [row.split("_")[0] for row in named(list(map(str, found)))] == ["gpusmith", *["containerd"] * 2]
    # Other playbooks install nothing.
    assert guard.refusals(Run("gpu_nodes", ["n"], ["n"]), Hosts(), load(), cluster=False) == []


@pytest.mark.parametrize(
    ("repository", "says"),
    [
        ({"uris": []}, "has no 'uris'"),
        ({**REPOSITORY, "suites": []}, "has no 'suites'"),
        ({**REPOSITORY, "key": "x"}, "is no armored public key"),
        ({**REPOSITORY, "fingerprint": "0" * 40}, "the inventory says '0000"),
        ({**REPOSITORY, "type": "rpm", "signed": "no"}, "unsigned ones are refused"),
        # Their form is wrong, which is told by the rules of types.
        ({"url": "http://a"}, ""),
        ("http://a", ""),
        ({**REPOSITORY, "key": "{{ nobody }}"}, ""),
    ],
)
def test_a_repository_can_be_used(repository: Any, says: str) -> None:
    messages = told({**FULL, "containerd_repository": repository})
    assert [says in message for message in messages] == ([True] if says else [])


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("kubernetes_node_version", "1.36", "all three numbers"),
        ("kubernetes_node_control_plane_endpoint", "https://a:6443", "must be host:port"),
        ("kubernetes_node_control_plane_endpoint", "a", "must be host:port"),
        (IMAGES, {"cuda": "a"}, "'validation_images' has no 'pytorch', 'tensorflow'."),
    ],
)
def test_what_would_not_do_is_named(name: str, value: Any, says: str) -> None:
    (message,) = told({**FULL, name: value})
    assert says in message


def test_names_with_capitals_cannot_join() -> None:
    (message,) = told(FULL, node="GPU-1")
    assert "Name the host 'gpu-1' in the inventory" in message
