"""How fast healthy GPUs are, from data/baselines.yml: peaks per model, and the parts of them that checks ask for."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpusmith.data import table

VALUES = ("memory_gb_s", "gemm_tflops", "h2d_gb_s", "d2h_gb_s")
"""Of a GPU: names in the program's result, in this table and in 'validation_baselines'."""
LANES = 16
"""Of a PCIe link that the table names the rate of."""


@dataclass(frozen=True)
class Band:
    """Parts of a peak.

    Attributes:
        fail: below it, a check fails.
        warn: below it, a note says so.
    """

    fail: float
    warn: float


@dataclass(frozen=True)
class Limit:
    """What one value of a GPU is compared with; in the value's own unit.

    Attributes:
        peak: what the hardware can do, or did at the site.
        band: parts of that.
        recorded: it did so at the site.
    """

    peak: float
    band: Band
    recorded: bool = False

    @property
    def what(self) -> str:
        """The peak in words."""
        return "the recorded" if self.recorded else "the peak of"

    @property
    def floor(self) -> float:
        """Below it, the check fails."""
        return self.peak * self.band.fail

    @property
    def usual(self) -> float:
        """Below it, a note says so."""
        return self.peak * self.band.warn


@dataclass(frozen=True)
class OfModel:
    """A model.

    Attributes:
        limits: of its values, by their names in the result of the program.
        nvlink_gb_s: of all its links in both directions; None if that is not known.
        measured: what others measured on healthy GPUs, by the same names.
    """

    limits: Mapping[str, Limit]
    nvlink_gb_s: float | None = None
    measured: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Baselines:
    """The table.

    Attributes:
        models: by their keys in data/gpus.yml.
        pcie_x16: rate of a link with 16 lanes in one direction, by generation.
        copies: parts of that.
        recorded: parts of what a site has recorded.
        nvlink_share: part of a link's share of all links' rate.
        alike: part of the median of its like that a GPU has at the least, by value.
        alike_least: with fewer GPUs of a model there is no median.
    """

    models: Mapping[str, OfModel]
    pcie_x16: Mapping[int, float]
    copies: Band
    recorded: Band
    nvlink_share: float
    alike: Mapping[str, float]
    alike_least: int

    def known(self, own: Mapping[str, float], row: OfModel | None) -> OfModel:
        """A model's baseline with what a site has recorded of it, which takes the place of the table's peaks."""
        limits = {name: Limit(value, self.recorded, recorded=True) for name, value in own.items()}
        return replace(row or OfModel({}), limits={**(row.limits if row else {}), **limits})

    def link(self, generation: int | None, lanes: int | None) -> Limit | None:
        """Of copies between host and GPU over a PCIe link; None if the table does not have it."""
        rate = self.pcie_x16.get(generation or 0)
        return None if rate is None or not lanes else Limit(rate * lanes / LANES, self.copies)


def implausible(limits: Mapping[str, Limit], measured: Mapping[str, float]) -> Iterator[str]:
    """What a person has mistyped, or copied from who did: a floor or a measured value that no healthy GPU could have."""
    for name, limit in limits.items():
        if not 0.40 <= limit.floor / limit.peak <= 0.95:
            yield f"{name}: the floor {limit.floor:g} is not 40 to 95 % of the peak {limit.peak:g}"
    for name, value in measured.items():
        peak = limits[name].peak
        if not 0.50 <= value / peak <= 1.0:
            yield f"{name}: {value:g} was measured, which is not 50 to 100 % of the peak {peak:g}"


def _model(row: Mapping[str, Any], bands: Mapping[str, Any]) -> OfModel:
    limits = {"memory_gb_s": Limit(row["memory_gb_s"], Band(**bands["memory"][row["memory"]]))}
    if "gemm" in row:
        limits["gemm_tflops"] = Limit(row["gemm_tflops"], Band(**bands["gemm"][row["gemm"]]))
    return OfModel(limits, row.get("nvlink_gb_s"), row.get("measured") or {})


def _parse(content: dict[str, Any]) -> Baselines:
    bands, alike = content["bands"], content["alike"]
    return Baselines(
        {key: _model(row, bands) for key, row in content["models"].items()},
        content["pcie_x16"],
        Band(**bands["copies"]),
        Band(**bands["recorded"]),
        content["nvlink_share"],
        alike["below"],
        alike["at_least"],
    )


def load(path: Path | None = None) -> Baselines:
    """The table.

    Raises:
        ToolError: the file is missing or has another shape.
    """
    return table.read(path, "baselines.yml", "gpusmith.baselines/1", "baselines", _parse)


@functools.cache
def of_file() -> Baselines:
    """The same, read once."""
    return load()
