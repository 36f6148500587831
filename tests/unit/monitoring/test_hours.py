"""GPU hours: windows that add up, nobody's hours apart, and what there are no values of."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gpusmith.monitoring import hours
from gpusmith.monitoring.hours import Hours

NOW = 1_800_000_000.0
# Each window of 12 hours: 1440 values of a GPU that is always there make 12 GPU hours.
COUNTS = {"team-a": 1440.0, "team-b": 720.0, "": 2160.0}
SUMS = {"team-a": 1080.0, "team-b": 0.0, "": 0.0}


def series(values: Mapping[str, float]) -> list[Mapping[str, Any]]:
    return [
        {"metric": {"namespace": name} if name else {}, "value": [NOW, str(value)]}
        for name, value in values.items()
    ]


def test_windows_cover_the_days_once_and_add_up() -> None:
    asked: list[str] = []

    def query(text: str) -> Sequence[Mapping[str, Any]]:
        asked.append(text)
        if hours.EXPECTED in text:
            return series({"": 4.0})
        return series(COUNTS if "count_over_time" in text else SUMS)

    found = hours.ask(query, 2, NOW)
    assert found.held == {"team-a": 48.0, "team-b": 24.0}
    assert found.busy["team-a"] == 36.0
    assert (found.free, found.measured, found.expected) == (72.0, 144.0, 192.0)
    windows = [re.findall(r"\[12h\] @ 1800000000 offset (\d+)h", text) for text in asked if "count" in text]
    assert windows == [["0"], ["12"], ["24"], ["36"]]


def test_runs_of_the_suite_are_one_row() -> None:
    runs = {f"gpusmith-validation-1127{n}-ab": 120.0 for n in range(3)}
    found = hours.ask(lambda text: series({"": 4.0} if hours.EXPECTED in text else runs), 1, NOW)
    assert found.held == {"gpusmith-validation": 6.0}


def test_who_held_most_is_said_first() -> None:
    found = Hours({"team-b": 2.0, "team-a": 40.0}, {"team-a": 30.0}, 6.0, 96.0)
    assert list(found.lines(1)) == [
        "team-a held GPUs for 40.0 GPU hours, 75% of them busy",
        "team-b held GPUs for 2.0 GPU hours, 0% of them busy",
        "Nobody held GPUs for 6.0 GPU hours.",
        "Prometheus has values of 48.0 GPU hours, of 96.0 that the GPUs of today make in 24 hours.",
    ]
    assert found.table() == "namespace,gpu_hours,busy_gpu_hours\nteam-a,40.00,30.00\nteam-b,2.00,0.00\n"
