"""What many nodes say is in memory once."""

from __future__ import annotations

import json
from dataclasses import asdict

from gpusmith.node.records import parse
from gpusmith.plain import Shared
from tests.unit.records import healthy_record


def test_equal_parts_are_the_same_objects_and_nothing_else_changes() -> None:
    text, shared = json.dumps(healthy_record()), Shared()
    one, other = (shared(parse(json.loads(text))) for _ in range(2))
    assert one is other
    assert asdict(one) == asdict(parse(json.loads(text)))
    raw = json.loads(text)
    raw["host"]["hostname"] = "gpu-9"
    third = shared(parse(raw))
    assert third.host.hostname == "gpu-9" != one.host.hostname
    assert third.packages is one.packages


def test_values_that_are_only_equal_stay_apart() -> None:
    shared = Shared()
    for value in ([1, "a"], [True, "a"], [1.0, "a"], (1, "a"), {1: "a"}, {"a": 1}, [], {}, (), None, [None]):
        found = shared(value)
        assert repr(found) == repr(value)
        assert shared(value) is found
