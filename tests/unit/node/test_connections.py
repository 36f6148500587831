"""Reaching nodes: the command that testinfra runs, and what becomes of a node that does not answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from gpusmith.node import connections as node
from gpusmith.node.bundle import BOOTSTRAP, bundle
from gpusmith.node.connections import Result, Unreachable
from tests.unit.hosts import build
from tests.unit.node.test_hostkey import WARNING


class FakeNode:
    def __init__(self, name: str, answer: Result | Exception) -> None:
        self.name, self.answer = name, answer
        self.runs = 0

    def run(self, argv: Sequence[str], stdin: bytes = b"", timeout_s: float = 60.0) -> Result:
        self.runs += 1
        assert (list(argv), stdin) == (["python3", "-c", BOOTSTRAP], bundle())
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_the_probe_fits_into_one_word_of_a_command() -> None:
    # Linux takes no longer one (MAX_ARG_STRLEN); ssh and the node's shell get all of it as one.
    assert len(node.with_input(["sudo", "-n", "python3", "-c", BOOTSTRAP], bundle(), 90)) < 120 * 1024


def test_all_nodes_are_asked_once(record: dict[str, Any]) -> None:
    good = Result(0, json.dumps(record), "")
    nodes = {
        "gpu-1": FakeNode("gpu-1", good),
        "gpu-2": FakeNode("gpu-2", Unreachable("Node 'gpu-2' does not answer over ssh: refused", "Try it.")),
        "gpu-3": FakeNode("gpu-3", Result(127, "", "python3: not found")),
        "gpu-4": FakeNode("gpu-4", Result(124, "", "")),
        "gpu-5": FakeNode("gpu-5", Result(0, '{"schema": "other"}', "")),
        "gpu-6": FakeNode("gpu-6", Result(0, f"Welcome!\n{json.dumps(record)}\nbye\n", "")),
        "gpu-7": FakeNode("gpu-7", good),
    }
    found = node.probe_all(nodes, {"gpu-1": ["0000:18:00.0"]})
    assert [row.runs for row in nodes.values()] == [1] * 7
    counts = [len(row.record.pci.gpus) for row in (found["gpu-1"], found["gpu-6"]) if row.record]
    assert counts == [3, 4]
    assert found["gpu-6"].record is found["gpu-7"].record, "what nodes have in common is in memory once"
    assert all(found[name].record is None for name in list(nodes)[1:5])
    assert "refused" in found["gpu-2"].problem
    assert "python3: not found" in found["gpu-3"].problem
    assert "did not end" in found["gpu-4"].problem
    assert "'other'" in found["gpu-5"].problem


def test_connection_keeps_the_inventorys_settings(variables: Callable[..., dict[str, Any]]) -> None:
    values = variables(
        ansible_user="admin",
        ansible_port=2222,
        ansible_ssh_private_key_file=__file__,
        ansible_ssh_common_args="-o StrictHostKeyChecking=yes -o UserKnownHostsFile=/keys/known",
        ansible_become=True,
    )
    found = build({"gpu_nodes": {"hosts": ["gpu-1"]}}, {"gpu-1": values}, "x", "")
    adapter = node.connect(found, Path("/"))["gpu-1"]
    assert isinstance(adapter, node.TestinfraNode)
    words, arguments = adapter.host.backend._build_ssh_command("true")
    line = " ".join(words) % tuple(arguments)
    for part in (
        "StrictHostKeyChecking=yes",
        "UserKnownHostsFile=/keys/known",
        f"-i {__file__}",
        "Port=2222",
        "User=admin",
        "BatchMode=yes",
    ):
        assert part in line
    assert adapter.become is True
    assert "StrictHostKeyChecking=no" not in line


def test_the_suite_goes_the_way_that_playbooks_go(variables: Callable[..., dict[str, Any]]) -> None:
    """By old names of host, port and user, which win; what is empty is as if it were not there."""
    values = variables(
        ansible_ssh_host="192.0.2.7",
        ansible_ssh_port=2207,
        ansible_ssh_user="old",
        ansible_ssh_args="-J jump",
    )
    values |= {"ansible_port": 22, "ansible_ssh_common_args": None, "ansible_ssh_extra_args": None}
    bare = variables() | {"ansible_host": None}
    found = build({"gpu_nodes": {"hosts": ["gpu-1", "gpu-2"]}}, {"gpu-1": values, "gpu-2": bare}, "x", "")
    lines = []
    for adapter in node.connect(found, Path("/")).values():
        assert isinstance(adapter, node.TestinfraNode)
        words, arguments = adapter.host.backend._build_ssh_command("true")
        lines.append(" ".join(words) % tuple(arguments))
    for part in ("-J jump", "Port=2207", "User=old", " 192.0.2.7 "):
        assert part in lines[0]
    assert " gpu-2 " in lines[1]
    assert found.hosts["gpu-1"].address == "192.0.2.7"


def test_a_changed_host_key_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Backend:
        def run(self, command: str) -> None:
            raise RuntimeError(Result(255, "", WARNING))

    class Host:
        backend = Backend()

    with pytest.raises(Unreachable, match=r"^Node 'gpu-1': its host key is not the one") as caught:
        node.TestinfraNode("gpu-1", Host()).run(["true"])
    assert "ssh-keygen -f" in caught.value.hint
