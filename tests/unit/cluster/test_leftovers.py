"""Namespaces of other runs: a living run's is never removed, whatever its host is called; a killed one's is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from gpusmith.cluster import leftovers
from gpusmith.cluster.api import Cluster
from gpusmith.cluster.leftovers import Leftovers, sort_out
from gpusmith.owner import lives, process


def row(name: str, owner: str, alive: str = "", **changes: Any) -> dict[str, Any]:
    marks = {"gpusmith.io/owner": owner, "gpusmith.io/alive": alive}
    return {"metadata": {"name": name, "annotations": marks, **changes}}


def changed(place: int, value: str) -> str:
    parts = str(process()).split("/")
    parts[place] = value
    return "/".join(parts)


GONE = str(2**22 + 1)


@pytest.mark.parametrize(
    ("owner", "known"),
    [
        (str(process()), True),
        (changed(0, "renamed"), True),
        (changed(3, GONE), False),
        (changed(4, "1"), False),
        # Same host name, same process id: another machine, another container.
        (changed(1, "another-boot"), None),
        (changed(2, "4026539999"), None),
        ("", None),
        ("runner/1/777", None),
    ],
    ids=[
        "own",
        "host renamed",
        "ended",
        "process id used again",
        "other boot",
        "other container",
        "none",
        "old",
    ],
)
def test_a_process_is_known_only_where_it_runs(owner: str, known: bool | None) -> None:
    assert lives(owner) is known


def test_a_process_that_may_not_be_seen_is_not_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Path.read_text

    def hidden(path: Path, *words: Any, **more: Any) -> str:
        if path.name == "stat":
            raise FileNotFoundError
        return read(path, *words, **more)

    def not_yours(*_: Any) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "read_text", hidden)
    monkeypatch.setattr(os, "kill", not_yours)
    assert lives(changed(3, "1")) is None


@pytest.mark.parametrize(
    ("owner", "living"),
    [(str(process()), True), (changed(3, GONE), False), (changed(1, "another-boot"), False)],
    ids=["lives", "ended", "elsewhere"],
)
def test_what_is_being_deleted_is_a_leftover_unless_its_run_lives(owner: str, living: bool) -> None:
    """A run that ends waits for its own pods: to another one, which may not wait so long, that is no failure."""
    rows = [row("ends", owner, deletionTimestamp="2026-01-01T00:00:00Z"), row("here", str(process()))]
    assert sort_out(rows) == (Leftovers((), ("ends", "here")) if living else Leftovers(("ends",), ("here",)))


class Api:
    """Lists of namespaces, one per look; the last one stays."""

    def __init__(self, *lists: list[dict[str, Any]]) -> None:
        self.lists = list(lists)
        self.looks = 0

    def items(self, path: str, **_: str) -> list[dict[str, Any]]:
        self.looks += 1
        return self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]


def find(api: Api, clock: Callable[[], float] = lambda: 0.0) -> tuple[Leftovers, list[str]]:
    said: list[str] = []
    return leftovers.find(cast(Cluster, api), said.append, lambda _: None, clock), said


FAR = changed(1, "another-boot")


def test_a_run_elsewhere_lives_if_it_says_so_while_it_is_watched() -> None:
    api = Api([row("a", FAR, "1")], [row("a", FAR, "1")], [row("a", FAR, "2")])
    found, said = find(api)
    assert (found, api.looks) == (Leftovers((), ("a",)), 3)
    assert "sign of life in namespace 'a'" in said[0]


def test_a_run_elsewhere_that_says_nothing_is_dead() -> None:
    api = Api([row("a", FAR, "1"), row("b", str(process()))])
    found, _ = find(api)
    assert found == Leftovers(("a",), ("b",))
    assert api.looks == leftovers.LOST_LOOKS + 1
    assert leftovers.LOST_LOOKS * leftovers.LOOK_S >= 5 * leftovers.BEAT_S, "some beats may get lost"


def test_one_that_ends_meanwhile_is_nobodys() -> None:
    assert find(Api([row("a", FAR, "1")], []))[0] == Leftovers((), ())


def test_nobody_is_waited_for_without_need() -> None:
    api = Api([row("a", str(process())), row("b", changed(3, GONE))])
    assert (find(api), api.looks) == ((Leftovers(("b",), ("a",)), []), 1)


def test_silence_while_the_api_is_slow_proves_nothing() -> None:
    times = iter(range(0, 100_000, 60))
    api = Api([row("a", FAR, "1")])
    found, _ = find(api, lambda: float(next(times)))
    assert found == Leftovers((), ("a",))
