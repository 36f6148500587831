"""The table of baselines: what it says is possible, sourced, and met by the healthy GPUs that others measured."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from gpusmith.data import baselines, models
from gpusmith.data.baselines import Band, Limit, implausible
from gpusmith.paths import repo_root

TABLE: dict[str, Any] = yaml.safe_load((repo_root() / "data" / "baselines.yml").read_text())
KEYS = sorted(TABLE["models"])


@pytest.mark.parametrize("key", KEYS)
def test_a_row_is_possible_and_a_healthy_gpu_meets_it(key: str) -> None:
    row = baselines.load().models[key]
    assert list(implausible(row.limits, row.measured)) == []
    noted = {name: value for name, value in row.measured.items() if value < row.limits[name].usual}
    assert noted == {}, "a healthy GPU would be noted"


@pytest.mark.parametrize(
    ("peak", "floor", "measured", "says"),
    [
        (4800, 2.333, 3110, "floor 2.333"),  # H200
        (1555, 137.5, 1400, "floor 137.5"),  # A100-SXM4-40GB
        (864, 49.05, 700, "floor 49.05"),  # L40
        (1555, 1372.5, 1830, "1830 was measured"),  # A100-SXM4-40GB
        (600, 480.5, 640.7, "640.7 was measured"),  # A10
    ],
)
def test_the_errors_of_dcgms_table_are_found(peak: float, floor: float, measured: float, says: str) -> None:
    limits = {"memory_gb_s": Limit(peak, Band(floor / peak, floor / peak))}
    found = list(implausible(limits, {"memory_gb_s": measured}))
    assert len(found) == 1
    assert says in found[0]


def test_every_row_is_a_model_and_every_value_has_a_source_that_was_read() -> None:
    assert set(KEYS) <= set(models.load())
    used = {name for row in TABLE["models"].values() for name in row["sources"]}
    assert used == set(TABLE["sources"])
    assert [name for name, row in TABLE["sources"].items() if not (row["url"] and row["date"])] == []


def test_all_links_of_a_model_are_counted_where_their_rate_is_known() -> None:
    known = yaml.safe_load((repo_root() / "data" / "gpus.yml").read_text())["models"]
    with_rate = {key for key in KEYS if "nvlink_gb_s" in TABLE["models"][key]}
    assert with_rate == {key for key in KEYS if known[key]["nvlinks"]}
    each = {key: TABLE["models"][key]["nvlink_gb_s"] / 2 / known[key]["nvlinks"] for key in with_rate}
    assert set(each.values()) == {25.0, 50.0}


@pytest.mark.parametrize(
    ("generation", "lanes", "floor"),
    [(5, 16, 41.6), (4, 8, 10.36), (6, 16, None), (None, 16, None), (4, None, None)],
)
def test_a_link_carries_what_its_lanes_do(
    generation: int | None, lanes: int | None, floor: float | None
) -> None:
    limit = baselines.load().link(generation, lanes)
    assert (round(limit.floor, 2) if limit else None) == floor
