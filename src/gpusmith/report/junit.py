"""junit.xml: one suite per tier, one case per check and target."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable

from gpusmith.checks.findings import Finding, Outcome
from gpusmith.checks.register import TIERS
from gpusmith.report.results import Results

# What XML 1.0 cannot carry, even escaped.
UNPRINTABLE = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127), "?")
KINDS = {Outcome.FAILED: "failure", Outcome.ERROR: "error", Outcome.SKIPPED: "skipped"}


def junit(results: Results) -> bytes:
    """The document."""
    root = ET.Element(
        "testsuites",
        {
            "name": "gpusmith validation",
            **_counts(len(results.findings), results.count),
            "time": f"{results.info.duration_s:.3f}",
        },
    )
    suites = []
    for tier in TIERS:
        rows = [row for row in results.findings if row.check.startswith(tier + ".")]
        if rows:
            # Case by case: as one tree, those of thousands of nodes take more memory than all else.
            cases = [_case(row, results.info.user_lands.get(row.target, "")) for row in rows]
            suites.append(_around(_suite(tier, rows, results), cases, 1))
    return b"<?xml version='1.0' encoding='utf-8'?>\n" + _around(root, suites, 0) + b"\n"


def _around(element: ET.Element, inside: list[bytes], level: int) -> bytes:
    """An element as text, with texts of its children."""
    indent = b"  " * level
    opening = ET.tostring(element, encoding="utf-8", short_empty_elements=False).removesuffix(
        f"</{element.tag}>".encode()
    )
    return b"\n".join([indent + opening, *inside, indent + f"</{element.tag}>".encode()])


def _counts(tests: int, count: Callable[[Outcome], int]) -> dict[str, str]:
    return {
        "tests": str(tests),
        "failures": str(count(Outcome.FAILED)),
        "errors": str(count(Outcome.ERROR)),
        "skipped": str(count(Outcome.SKIPPED)),
    }


def _suite(tier: str, rows: list[Finding], results: Results) -> ET.Element:
    return ET.Element(
        "testsuite",
        {
            "name": tier,
            **_counts(len(rows), lambda outcome: sum(row.outcome is outcome for row in rows)),
            "timestamp": results.info.started.removesuffix("Z"),
            "hostname": results.info.inventory,
            "time": f"{sum(row.duration_s for row in rows):.3f}",
        },
    )


def _case(row: Finding, user_land: str) -> bytes:
    name = f"{row.check}[{row.target}]"
    case = ET.Element("testcase", classname=row.target, name=name, time=f"{row.duration_s:.3f}")
    properties = ET.SubElement(case, "properties")
    ET.SubElement(properties, "property", name="simulated", value=str(row.simulated).lower())
    if user_land:
        ET.SubElement(properties, "property", name="user_land", value=user_land)
    if row.outcome is not Outcome.PASSED:
        element = ET.SubElement(case, KINDS[row.outcome], message=row.cause.translate(UNPRINTABLE))
        evidence = json.dumps(dict(row.evidence), indent=1, default=str)
        element.text = f"Next: {row.next_step}\n{evidence}".translate(UNPRINTABLE)
    ET.indent(case, level=2)
    text: bytes = ET.tostring(case, encoding="utf-8")
    return b"    " + text
