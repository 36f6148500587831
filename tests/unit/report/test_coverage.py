"""The honest denominator."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gpusmith.errors import InputError
from gpusmith.report.coverage import GpuCoverage, demand, gpu_coverage, percent_of


def test_denominator_is_honest() -> None:
    row = gpu_coverage(8, ["a", "b"], {"team/train": 5}, "not allocatable")
    assert (row.expected, len(row.tested), row.busy, row.excluded) == (
        8,
        2,
        {"team/train": 5},
        {"not allocatable": 1},
    )
    assert gpu_coverage(2, ["a", "b"], {}, "x").excluded == {}


def fleet(tested: int, *rest: GpuCoverage) -> Mapping[str, GpuCoverage]:
    rows = [GpuCoverage(8, tuple(f"{n}-{gpu}" for gpu in range(8))) for n in range(tested)]
    return {f"gpu-{n}": row for n, row in enumerate([*rows, *rest])}


BUSY = GpuCoverage(8, (), {"team/train": 8})
CORDONED = GpuCoverage(8, (), {}, {"cordoned": 8}, kept_back=True)
HALF_BUSY_CORDONED = GpuCoverage(8, (), {"team/train": 4}, {"cordoned": 4}, kept_back=True)
MISSING = GpuCoverage(8, (), {}, {"not allocatable": 8})
HALF = GpuCoverage(8, ("x",) * 4, {}, {"not allocatable": 4})


@pytest.mark.parametrize(
    ("rows", "percent", "missed"),
    [
        (fleet(100), None, ""),
        (fleet(1, *[MISSING] * 99), None, "1 of 100 nodes and 8 of 800 GPUs"),
        (fleet(1, *[BUSY] * 99), None, ""),
        (fleet(1, *[CORDONED] * 99), None, ""),
        (fleet(1, HALF_BUSY_CORDONED), None, ""),
        (fleet(1, HALF), None, "12 of 16 GPUs"),
        (fleet(1, *[BUSY] * 99), 90.0, "1 of 90 nodes and 8 of 720 GPUs"),
        (fleet(90, *[CORDONED] * 10), 90.0, ""),
        (fleet(9, MISSING), 90.0, ""),
        (fleet(1, HALF), 75.0, ""),
        (fleet(1, HALF), 75.1, "12 of 13 GPUs"),
    ],
)
def test_how_much_must_be_tested(rows: Mapping[str, GpuCoverage], percent: float | None, missed: str) -> None:
    tested = [name for name, row in rows.items() if row.tested]
    assert demand(tested, rows, list(rows), True, percent).missed == missed
    without = demand(tested, rows, list(rows), False, percent).missed
    assert "GPUs" not in without


def test_a_node_that_was_looked_at_counts_although_its_gpus_are_busy() -> None:
    asked = demand(["gpu-0", "gpu-1"], fleet(1, BUSY), ["gpu-0", "gpu-1"], False, None)
    assert (asked.wanted, asked.missed) == ({"nodes": 2}, "")


def test_what_is_kept_back_is_only_what_was_not_tested() -> None:
    assert gpu_coverage(8, ["a"] * 8, {}, "x", kept_back=True).kept_back is False
    assert gpu_coverage(8, ["a"] * 7, {}, "x", kept_back=True).wanted == 7


@pytest.mark.parametrize(("text", "value"), [(None, None), ("90", 90.0), ("99.5%", 99.5), (" 1 ", 1.0)])
def test_a_percentage(text: str | None, value: float | None) -> None:
    assert percent_of(text) == value


@pytest.mark.parametrize("text", ["0", "101", "-1", "most", "nan", ""])
def test_no_percentage(text: str) -> None:
    with pytest.raises(InputError, match=f"'{text}' is no percentage"):
        percent_of(text)
