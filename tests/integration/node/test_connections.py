"""Reaching nodes: the command that testinfra runs, and what becomes of a node that does not answer."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from gpusmith.node import connections as node
from gpusmith.node.connections import Result, TestinfraNode, Unreachable
from gpusmith.wait import Deadline, Done, NotYet, wait_until
from tests.unit.hosts import build
from tests.unit.node.test_connections import FakeNode


def test_input_reaches_the_program_unchanged() -> None:
    data = bytes(range(256)) * 100
    copy = ["python3", "-c", "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"]
    command = node.with_input(copy, data, 20)
    assert subprocess.run(["sh", "-c", command], capture_output=True, check=True).stdout == data


def test_command_ends_in_time() -> None:
    assert (
        subprocess.run(["sh", "-c", node.with_input(["sleep", "9"], b"", 1)], check=False).returncode == 124
    )


def test_stopped_node_is_named(variables: Callable[..., dict[str, Any]]) -> None:
    values = variables(ansible_host="127.0.0.1", ansible_port=1)
    adapter = node.connect(build({"gpu_nodes": {"hosts": ["gpu-1"]}}, {"gpu-1": values}, "x", ""), Path("/"))[
        "gpu-1"
    ]
    with pytest.raises(Unreachable, match=r"'gpu-1' does not answer over ssh: .*refused"):
        adapter.run(["true"])


@pytest.fixture
def stalled(
    variables: Callable[..., dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[TestinfraNode, Path]:
    """A node whose ssh never ends, and neither does what it started; and the file with that one's process id."""
    pid = tmp_path / "pid"
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\ntrap '' TERM\nsleep 60 &\necho $! > {pid}\nwait\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(node, "CONNECT_TIMEOUT_S", 0)
    monkeypatch.setattr(node, "SSH_SLACK_S", 0.5)
    hosts = build({"gpu_nodes": {"hosts": ["gpu-1"]}}, {"gpu-1": variables()}, "x", "")
    found = node.connect(hosts, Path("/"))["gpu-1"]
    assert isinstance(found, TestinfraNode)
    return found, pid


def gone(pid: Path) -> bool:
    stat = Path(f"/proc/{pid.read_text().strip()}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


def wait_gone(pid: Path) -> None:
    """Wait for the end of a killed process, which takes its time on a busy machine."""
    wait_until(
        "the process to end", lambda: Done(None) if gone(pid) else NotYet("it lives"), Deadline(20), 0.05
    )


def test_an_ssh_that_stalls_is_ended_with_all_that_it_started(stalled: tuple[TestinfraNode, Path]) -> None:
    begin = time.monotonic()
    with pytest.raises(Unreachable, match=r"'gpu-1' does not answer over ssh: no end within 1 s"):
        stalled[0].run(["true"], timeout_s=0.1)
    assert time.monotonic() - begin < 10
    wait_gone(stalled[1])


def test_an_interrupted_probe_does_not_wait_for_ssh(
    stalled: tuple[TestinfraNode, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupts(FakeNode):
        def run(self, argv: Sequence[str], stdin: bytes = b"", timeout_s: float = 60.0) -> Result:
            wait_until(
                "the other", lambda: Done(None) if stalled[1].exists() else NotYet("-"), Deadline(20), 0.05
            )
            raise KeyboardInterrupt

    monkeypatch.setattr(node, "SSH_SLACK_S", 30.0)
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        node.probe_all({"gpu-2": Interrupts("gpu-2", Result(0, "", "")), "gpu-1": stalled[0]}, {})
    assert time.monotonic() - begin < 20
    wait_gone(stalled[1])
