"""Whether somebody keeps the clock, as timedatectl says it."""

from __future__ import annotations

from typing import cast

import pytest

from gpusmith.probe import clock
from gpusmith.probe.commands import Command


class Said:
    def __init__(self, text: str | None) -> None:
        self.text = text

    def output(self, errors: list[str]) -> str | None:
        return self.text


@pytest.mark.parametrize(
    ("text", "synchronised"), [("yes\n", "yes"), ("no\n", "no"), ("", None), (None, None)]
)
def test_clock(text: str | None, synchronised: str | None) -> None:
    assert clock.gather(cast("Command", Said(text))) == clock.Clock(synchronised)
