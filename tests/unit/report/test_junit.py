"""JUnit counts, cases and what XML cannot carry."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

from gpusmith.checks.findings import Finding, Skip
from gpusmith.report.junit import junit
from gpusmith.report.results import NODES_BY_NAME
from tests.unit.report.samples import BLOCKED, ERROR, FAILED, INFO, PASSED, SKIPPED, results


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


MANY = tuple(f"gpu-{n:03d}" for n in range(NODES_BY_NAME + 1))


def test_of_many_nodes_a_check_is_one_case() -> None:
    def rows(name: str, *first: Finding) -> list[Finding]:
        more = [replace(PASSED, check=name, target=target) for target in MANY[len(first) :]]
        return [replace(row, check=name, target=MANY[n]) for n, row in enumerate(first)] + more

    left_out = replace(SKIPPED, skip=Skip.LEFT_OUT)
    found = results(
        *rows("nodes.ecc", FAILED, FAILED, replace(ERROR, cause="no answer")),
        *rows("nodes.xid", BLOCKED),
        *rows("nodes.nvml", left_out),
        *rows("nodes.fabric", *([SKIPPED] * len(MANY))),
        *rows("nodes.cdi"),
        ERROR,
    )
    root = ET.fromstring(junit(replace(found, info=replace(INFO, nodes=MANY))))
    cases = {str(case.get("name")): case for case in root.iter("testcase")}
    kinds = {name: [child.tag for child in case if child.tag != "properties"] for name, case in cases.items()}
    assert kinds == {
        "nodes.ecc": ["failure"],
        "nodes.xid": ["skipped"],
        "nodes.nvml": [],
        "nodes.fabric": ["skipped"],
        "nodes.cdi": [],
        "cluster.api[cluster]": ["error"],
    }
    assert (root.get("tests"), root.get("failures"), root.get("errors"), root.get("skipped")) == (
        "6",
        "1",
        "1",
        "2",
    )
    failure = cases["nodes.ecc"].find("failure")
    assert failure is not None
    assert failure.get("message") == "gpu-000, gpu-001: Node 'gpu-1': <b>GPU 1</b> ? & co\ngpu-002: no answer"
    counts = {row.get("name"): row.get("value") for row in cases["nodes.ecc"].iter("property")}
    assert counts == {"simulated": "false", "failed": "2", "error": "1", "passed": str(len(MANY) - 3)}
    few = ET.fromstring(junit(replace(found, info=replace(INFO, nodes=MANY[1:]))))
    assert few.get("tests") == str(5 * len(MANY) + 1)
