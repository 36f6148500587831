"""The honest denominator."""

from __future__ import annotations

from gpusmith.report.coverage import gpu_coverage


def test_denominator_is_honest() -> None:
    row = gpu_coverage(8, ["a", "b"], {"team/train": 5}, "not allocatable")
    assert (row.expected, len(row.tested), row.busy, row.excluded) == (
        8,
        2,
        {"team/train": 5},
        {"not allocatable": 1},
    )
    assert gpu_coverage(2, ["a", "b"], {}, "x").excluded == {}
