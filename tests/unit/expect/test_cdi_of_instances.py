"""CDI specifications of GPUs that are divided by MIG: instances stand there, and not their GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.expect import cdi
from gpusmith.expect.wanted import cdi_of
from gpusmith.node.records import parse
from tests.unit.hosts import UUIDS, make_host
from tests.unit.records import divided_record, healthy_record


def causes(raw: dict[str, Any]) -> list[str]:
    want, seen = cdi_of(make_host()), parse(raw)
    return [problem.cause for problem in (*cdi.problems(seen, want), *cdi.plugin(seen, want))]


def by_uuid(raw: dict[str, Any]) -> dict[str, Any]:
    """The toolkit's with its other names."""
    spec, of_pods = raw["cdi"]["specs"][0], raw["cdi"]["plugin_specs"][0]
    spec["devices"] = [row for row in spec["devices"] if row["name"] == "all"] + of_pods["devices"]
    return raw


def test_instances_stand_for_their_gpus() -> None:
    assert causes(divided_record()) == []
    assert causes(by_uuid(divided_record())) == []


@pytest.mark.parametrize("part", ["specs", "plugin_specs"])
def test_an_instance_that_is_missing_or_leads_elsewhere_is_named(part: str) -> None:
    raw = divided_record()
    rows = [row for row in raw["cdi"][part][0]["devices"] if row["name"] != "all"]
    raw["cdi"][part][0]["devices"] = rows
    rows[3]["nodes"][0].update(path="/dev/nvidia3", host_path="/dev/nvidia3")
    (cause,) = causes(raw)
    assert "gives /dev/nvidia3, but GPU 1" in cause
    del rows[3]
    (cause,) = causes(raw)
    assert f"GPU 1 ({UUIDS[1]}" in cause


def test_what_was_made_before_the_gpus_were_divided_is_named() -> None:
    before = {**divided_record(), "cdi": healthy_record()["cdi"]}
    assert len([cause for cause in causes(before) if "is not in the CDI specification" in cause]) == 4
    after = by_uuid(divided_record())
    for gpu in after["nvml"]["gpus"]:
        gpu.update(mig_mode="disabled", instances=None)
    assert any("which is no GPU of the node" in cause for cause in causes(after))
