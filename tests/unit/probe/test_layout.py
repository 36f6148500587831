"""The machine's own word of its layout, and what records have of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpusmith.node.records import parse
from gpusmith.probe import layout
from gpusmith.probe.collect import as_json
from gpusmith.probe.instances import Instance
from gpusmith.probe.layout import GpuLayout
from tests.unit.records import healthy_record

HALVES = {"schema": layout.SCHEMA, "profile": "3g.40gb", "nvml": "3_SLICE", "starts": [0, 4]}


def test_a_file_is_read_and_none_is_told_apart(tmp_path: Path) -> None:
    file = tmp_path / "gpu-layout.json"
    assert layout.read(str(file)) is None
    file.write_text(json.dumps(HALVES))
    assert layout.read(str(file)) == GpuLayout(profile="3g.40gb", nvml="3_SLICE", starts=(0, 4))
    file.write_text(json.dumps({"schema": layout.SCHEMA, "ignored": ["0000:18:00.0"]}))
    assert layout.read(str(file)) == GpuLayout(ignored=("0000:18:00.0",))


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "other"},
        {"starts": ["0"]},
        {"starts": [True]},
        {"starts": 0},
        {"ignored": "0"},
        {"profile": 3},
        {"nvml": ""},
    ],
)
def test_what_is_no_layout_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"schema|kind|together"):
        layout.parse(json.dumps({**HALVES, **change}))
    with pytest.raises(ValueError, match="schema"):
        layout.parse("[]")


def test_a_record_keeps_it_and_the_instances_through_json() -> None:
    record = parse(healthy_record())
    assert (record.gpu_layout, record.nvml.gpus[0].instances) == (None, None), "records of earlier releases"
    gpu = replace(
        record.nvml.gpus[0],
        instances=(Instance("MIG-1", 1, "3_SLICE", 0, 4), Instance(None, 2, "3_SLICE", 4, 4)),
    )
    there = replace(
        record,
        gpu_layout=layout.parse(json.dumps(HALVES)),
        nvml=replace(record.nvml, gpus=(gpu, *record.nvml.gpus[1:])),
    )
    assert parse(json.loads(as_json(there))) == there
