"""What role cuda_toolkit has to do, from the record."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.expect.role_plans import cuda_plan
from tests.unit.records import healthy_record


@pytest.mark.parametrize(
    ("seen", "problems", "missing"),
    [
        ({"versions": ["13.0"], "default": "13.0"}, [], []),
        (
            {"versions": [], "default": None},
            [
                "CUDA toolkit 13.0 is not installed",
                "'/usr/local/cuda' leads to no CUDA toolkit, wanted is 13.0",
            ],
            ["13.0"],
        ),
        (
            {"versions": ["12.8", "13.0"], "default": "12.8"},
            ["'/usr/local/cuda' leads to CUDA toolkit 12.8, wanted is 13.0"],
            [],
        ),
    ],
)
def test_plan(seen: dict[str, Any], problems: list[str], missing: list[str]) -> None:
    record = {**healthy_record(), "cuda": seen}
    plan = cuda_plan(record, {"node": "gpu-1", "versions": ["13.0"], "default": "13.0"})
    assert (plan["problems"], plan["missing"]) == (problems, missing)
    assert plan["others"] == [version for version in seen["versions"] if version != "13.0"]


def test_nobody_asks_for_a_default() -> None:
    record = {**healthy_record(), "cuda": {"versions": ["12.8"], "default": None}}
    assert cuda_plan(record, {"node": "gpu-1", "versions": ["12.8"], "default": ""})["problems"] == []
