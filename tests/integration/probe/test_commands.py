from __future__ import annotations

import time

from gpusmith.probe import commands


def test_a_first_line_is_read_without_waiting_for_the_rest() -> None:
    begin = time.monotonic()
    assert commands.Command("sh", "-c", "echo one; echo two; sleep 30").first_line() == "one"
    assert commands.Command("sh", "-c", "exit 1").first_line() == ""
    assert commands.Command("no-such-program").first_line() == ""
    assert time.monotonic() - begin < 5
