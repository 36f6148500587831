"""Signs of life of a run."""

from __future__ import annotations

import time
from typing import Any, cast

import pytest

from gpusmith.cluster import leftovers
from gpusmith.cluster.api import Cluster
from gpusmith.errors import ToolError
from gpusmith.workloads.jobs import Run
from gpusmith.workloads.keepalive import KeepAlive

RUN = Run("a1", "host/boot/ns/1/2")


class Api:
    """Takes patches, or refuses some."""

    def __init__(self, *refused: int) -> None:
        self.refused = refused
        self.beats: list[str] = []

    def patch(self, path: str, body: dict[str, Any], manager: str) -> None:
        assert path == "/api/v1/namespaces/gpusmith-validation-a1"
        self.beats.append(body["metadata"]["annotations"]["gpusmith.io/alive"])
        if len(self.beats) in self.refused:
            raise ToolError("refused")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "BEAT_S", 0.01)


def test_each_sign_of_life_is_another_one_and_they_end_with_the_run() -> None:
    api = Api(2)
    with KeepAlive(cast(Cluster, api), RUN):
        end = time.monotonic() + 10
        while len(api.beats) < 4 and time.monotonic() < end:
            time.sleep(0.01)
    count = len(api.beats)
    assert count >= 4, "a beat that got lost is followed by others"
    assert len(set(api.beats)) > 1
    time.sleep(0.05)
    assert len(api.beats) == count


def test_a_run_that_may_not_say_that_it_lives_does_not_begin() -> None:
    with pytest.raises(ToolError), KeepAlive(cast(Cluster, Api(1)), RUN):
        raise AssertionError
