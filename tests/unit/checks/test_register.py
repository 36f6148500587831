"""The register: who is in it, in which order, and what it refuses."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from gpusmith.checks.register import TIERS, Check, Reads, catalog, check, of_tier
from gpusmith.errors import InputError
from gpusmith.suite.evaluation import FACTS


def test_checks_stand_by_tier_and_place() -> None:
    rows = list(catalog().values())
    assert rows == [row for tier in TIERS for row in sorted(of_tier(tier), key=lambda row: row.place)]
    assert [
        place for place, count in Counter((row.tier, row.place) for row in rows).items() if count > 1
    ] == []


def test_what_explains_other_failures_comes_first() -> None:
    assert [of_tier(tier)[0].id for tier in TIERS] == [
        "nodes.reachable",
        "cluster.api",
        "monitoring.prometheus",
        "workloads.nvidia-smi",
    ]
    assert list(catalog())[-1] == "workloads.cleanup"


@pytest.mark.parametrize("row", catalog().values(), ids=catalog())
def test_every_check_says_what_it_is_in_one_line(row: Check) -> None:
    assert re.fullmatch(r"[a-z]+\.[a-z-]+", row.id)
    for words in (row.proves, row.fails_when, row.do):
        assert words.strip() == words != ""
        assert "\n" not in words
        assert not words.endswith("."), "the page puts the full stop"


def test_the_suite_has_facts_for_everything_that_checks_read() -> None:
    assert set(FACTS) == set(Reads) == {row.reads for row in catalog().values()}


@pytest.mark.parametrize(
    ("name", "says"), [("pods.cuda", "of no tier"), ("nodes.xid", "registered twice")], ids=["tier", "twice"]
)
def test_a_check_of_no_tier_or_of_a_taken_name_is_refused(name: str, says: str) -> None:
    catalog()
    with pytest.raises(InputError, match=f"'{name}' is {says}"):
        check(name, place=1, proves="p", fails_when="f", do="d")(lambda _: [])
