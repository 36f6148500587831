"""Pods of a job reach each other, and its processes are waited for: real sockets and real processes."""

from __future__ import annotations

import importlib
import os
import socketserver
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

ONE, TWO = "127.0.0.1", "127.0.0.2"


@pytest.fixture
def ranks(programs: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The program's module, as its pod imports it."""
    monkeypatch.syspath_prepend(str(programs))
    return importlib.import_module("ranks")


def group(ranks: Any, place: int = 0, gpus: int = 2) -> Any:
    return ranks.Group(place, (ONE, TWO), ("gpu-1", "gpu-2"), gpus)


@pytest.fixture
def peer() -> Iterator[Callable[[str], int]]:
    """A pod that says which member it is; its port."""
    servers = []

    def start(says: str) -> int:
        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                self.request.sendall(f"{says}\n".encode())

        server = socketserver.ThreadingTCPServer((TWO, 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return int(server.server_address[1])

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_a_pod_that_answers_is_reached(ranks: Any, peer: Callable[[str], int]) -> None:
    assert ranks._reach(group(ranks), 1, peer("1"), time.monotonic() + 5, 5) < 1


@pytest.mark.parametrize(("says", "last"), [("0", "'0' answers there"), ("", "refused")])
def test_a_pod_that_is_not_reached_is_named_with_both_nodes(
    ranks: Any, peer: Callable[[str], int], says: str, last: str
) -> None:
    port = peer(says) if says else 1
    with pytest.raises(ranks.ProgramError, match=last) as caught:
        ranks._reach(group(ranks), 1, port, time.monotonic() + 0.5, 0.5)
    said = str(caught.value)
    assert said.startswith("the pod on node 'gpu-1' does not reach the pod on node 'gpu-2' (127.0.0.2, port")
    assert caught.value.facts == {"unreached": "gpu-2"}


def test_a_pod_that_only_finds_itself_says_so(ranks: Any, peer: Callable[[str], int]) -> None:
    """Its own answer comes by IPv4 and by IPv6."""
    with pytest.raises(ranks.ProgramError, match="'0' answers there"):
        ranks.meet(group(ranks), 0.5)
    six = ranks.Group(0, (ONE, "::1"), ("gpu-1", "gpu-2"), 2)
    with pytest.raises(ranks.ProgramError, match="'0' answers there"):
        ranks._reach(six, 1, ranks.REACH_PORT, time.monotonic() + 0.5, 0.5)


def test_a_pod_alone_meets_nobody(ranks: Any) -> None:
    assert ranks.meet(ranks.group({"GPUSMITH_GPUS": "4"})) == {}


def test_who_belongs_to_a_group_stands_in_the_environment(ranks: Any) -> None:
    env = {
        "GPUSMITH_GPUS": "4", "GPUSMITH_MEMBERS": "a.job,b.job", "GPUSMITH_NODES": "gpu-1,gpu-2", "GPUSMITH_PLACE": "1",
    }  # fmt: skip
    found = ranks.group(env)
    assert (found.node, found.world, found.rank(2)) == ("gpu-2", 8, 6)
    assert '"index": 1' in ranks.tf_config(found)
    assert "a.job:29500" in ranks.tf_config(found)


def in_processes(ranks: Any, work: Callable[[Sequence[int]], dict[str, Any]], limit_s: float = 10.0) -> Any:
    return ranks.in_processes(group(ranks), [[0], [1]], work, limit_s)


def test_what_each_process_gives_comes_in_order(ranks: Any) -> None:
    def work(share: Sequence[int]) -> dict[str, Any]:
        time.sleep(0.2 * (1 - share[0]))
        return {"ordinals": list(share), "process": os.getpid()}

    found = in_processes(ranks, work)
    assert [row["ordinals"] for row in found] == [[0], [1]]
    assert len({row["process"] for row in found} | {os.getpid()}) == 3


def dies(share: Sequence[int]) -> dict[str, Any]:
    if share[0]:
        os.kill(os.getpid(), 9)
    time.sleep(60)
    return {}


def raises(share: Sequence[int]) -> dict[str, Any]:
    if share[0]:
        raise RuntimeError("no way\nat all")
    time.sleep(60)
    return {}


def sleeps(share: Sequence[int]) -> dict[str, Any]:
    time.sleep(60 * share[0])
    return {}


@pytest.mark.parametrize(
    ("work", "says"),
    [
        (dies, "rank 1 of node 'gpu-1' ended without a word, with signal SIGKILL"),
        (raises, "rank 1 of node 'gpu-1' failed: RuntimeError: no way at all"),
        (sleeps, "rank 1 of node 'gpu-1' did not end in time"),
    ],
)
def test_a_process_that_fails_ends_the_others(
    ranks: Any, monkeypatch: pytest.MonkeyPatch, work: Any, says: str
) -> None:
    monkeypatch.setattr(ranks, "GRACE_S", 0.3)
    begin = time.monotonic()
    with pytest.raises(ranks.ProgramError) as caught:
        in_processes(ranks, work, 2.0)
    assert str(caught.value).startswith(says), caught.value
    assert time.monotonic() - begin < 8
    assert caught.value.facts == {"died": "SIGKILL" in says}


LOG = """gpu-1:7:9 [0] NCCL INFO Channel 00/08 :    0   1   2   3
gpu-1:7:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read
gpu-1:7:9 [0] NCCL INFO Channel 01/0 : 7[7] -> 8[0] [receive] via NET/IB/0/GDRDMA
gpu-1:7:9 [0] NCCL INFO Connected NVLS tree
"""


def test_ways_of_data_are_read_from_the_log_of_nccl(ranks: Any, tmp_path: Path) -> None:
    (tmp_path / "gpusmith-nccl.12").write_text(LOG)
    (tmp_path / "gpusmith-nccl.13").write_text(LOG.replace("P2P/CUMEM/read", "SHM/direct/direct"))
    assert ranks.transports(tmp_path) == ["NET/IB", "NVLS", "P2P/CUMEM", "SHM/direct"]
    assert ranks.transports(tmp_path / "none") == []
