"""JUnit counts, cases and what XML cannot carry."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

from gpusmith.report.junit import junit
from tests.unit.report.samples import ERROR, FAILED, PASSED, SKIPPED, results


def test_one_suite_per_tier_counts_its_outcomes() -> None:
    root = ET.fromstring(junit(results(FAILED, ERROR, SKIPPED)))
    assert (root.get("tests"), root.get("failures"), root.get("errors"), root.get("skipped")) == (
        "3",
        "1",
        "1",
        "1",
    )
    rows = {
        row.get("name"): (row.get("tests"), row.get("failures"), row.get("errors"), row.get("skipped"))
        for row in root
    }
    assert rows == {"nodes": ("2", "1", "0", "1"), "cluster": ("1", "0", "1", "0")}


def test_cases_of_a_node_say_what_its_user_land_is() -> None:
    found = results(PASSED, replace(PASSED, target="gpu-2"))
    found = replace(found, info=replace(found.info, user_lands={"gpu-2": "of another distribution"}))
    properties = [
        [row.get("value") for row in case.iter("property") if row.get("name") == "user_land"]
        for case in ET.fromstring(junit(found)).iter("testcase")
    ]
    assert properties == [[], ["of another distribution"]]


def test_a_case_says_cause_and_next_step_unless_it_passed() -> None:
    root = ET.fromstring(junit(results(FAILED, replace(PASSED, target="gpu-2", simulated=True))))
    failed, passed = root.iter("testcase")
    assert (failed.get("name"), failed.get("classname")) == ("nodes.ecc[gpu-1]", "gpu-1")
    failure = failed.find("failure")
    assert failure is not None
    assert failure.get("message") == "Node 'gpu-1': <b>GPU 1</b> ? & co", "NUL has no form in XML"
    assert (failure.text or "").startswith('Next: Reset it.\n{\n "n": 1')
    assert [child.tag for child in passed] == ["properties"]
    assert [row.get("value") for row in root.iter("property")] == ["false", "true"]
