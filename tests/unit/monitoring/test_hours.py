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
# Of shares: a quarter of a GPU each, all the time.
SHARES = {"team-b": 360.0, "team-c": 720.0}


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
        if hours.SHARES in text:
            return series(SHARES)
        return series(COUNTS if "count_over_time" in text else SUMS)

    found = hours.ask(query, 2, NOW)
    assert found.held == {"team-a": 48.0, "team-b": 24.0}
    assert found.busy["team-a"] == 36.0
    assert found.shares == {"team-b": 12.0, "team-c": 24.0}
    # A GPU in shares has no pod in the metrics: what pods held of it was not free.
    assert (found.free, found.measured, found.expected) == (36.0, 144.0, 192.0)
    windows = [re.findall(r"\[12h\] @ 1800000000 offset (\d+)h", text) for text in asked if "count" in text]
    assert windows == [["0"], ["12"], ["24"], ["36"]]


def test_runs_of_the_suite_are_one_row() -> None:
    runs = {f"gpusmith-validation-1127{n}-ab": 120.0 for n in range(3)}
    found = hours.ask(lambda text: series({"": 4.0} if hours.EXPECTED in text else runs), 1, NOW)
    assert found.held == found.shares == {"gpusmith-validation": 6.0}
    assert found.free == 0, "of shares there are values before there are values of their GPUs"


def test_who_held_most_is_said_first() -> None:
    found = Hours({"team-b": 2.0, "team-a": 40.0}, {"team-a": 30.0}, {}, 6.0, 96.0)
    assert list(found.lines(1)) == [
        "team-a held GPUs for 40.0 GPU hours, 75% of them busy",
        "team-b held GPUs for 2.0 GPU hours, 0% of them busy",
        "Nobody held GPUs for 6.0 GPU hours.",
        "Prometheus has values of 48.0 GPU hours, of 96.0 that the GPUs of today make in 24 hours.",
    ]
    assert found.table() == (
        "namespace,gpu_hours,busy_gpu_hours,shares_gpu_hours\nteam-a,40.00,30.00,0.00\nteam-b,2.00,0.00,0.00\n"
    )


def test_shares_are_parts_of_gpus_of_which_nobody_knows_who_worked() -> None:
    found = Hours({"team-b": 2.0}, {"team-b": 1.0}, {"team-a": 3.0, "team-b": 0.5}, 6.0, 96.0)
    assert list(found.lines(1)) == [
        "team-a held shares that make 3.0 GPU hours",
        "team-b held GPUs for 2.0 GPU hours, 50% of them busy, and shares that make 0.5 GPU hours",
        "Nobody held GPUs for 6.0 GPU hours.",
        "Prometheus has values of 11.5 GPU hours, of 96.0 that the GPUs of today make in 24 hours.",
    ]
    assert found.table().splitlines()[1:] == ["team-a,0.00,0.00,3.00", "team-b,2.00,1.00,0.50"]
