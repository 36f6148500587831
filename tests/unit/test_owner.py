"""Which process something is of, and whether it lives."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from gpusmith import owner


def test_a_process_is_known_by_its_start() -> None:
    mine = owner.process()
    assert (mine.pid, mine.lives) == (os.getpid(), True)
    assert replace(mine, start="1").lives is False


def test_one_that_this_user_may_not_see_is_not_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    def hidden(*_: object, **__: object) -> str:
        raise FileNotFoundError

    mine = owner.process()
    monkeypatch.setattr(Path, "read_text", hidden)
    monkeypatch.setattr(owner, "place", lambda: mine.place)
    assert mine.lives is None


def test_of_another_place_nobody_can_tell() -> None:
    mine = owner.process()
    assert mine.place.count("/") == 1
    assert replace(mine, place=mine.place + "1").lives is None
    assert replace(mine, place="").lives is None
