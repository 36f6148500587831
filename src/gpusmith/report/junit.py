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
    for tier in TIERS:
        rows = [row for row in results.findings if row.check.startswith(tier + ".")]
        if rows:
            _add_suite(root, tier, rows, results)
    ET.indent(root)
    body: bytes = ET.tostring(root, encoding="utf-8")
    return b"<?xml version='1.0' encoding='utf-8'?>\n" + body + b"\n"


def _counts(tests: int, count: Callable[[Outcome], int]) -> dict[str, str]:
    return {
        "tests": str(tests),
        "failures": str(count(Outcome.FAILED)),
        "errors": str(count(Outcome.ERROR)),
        "skipped": str(count(Outcome.SKIPPED)),
    }


def _add_suite(root: ET.Element, tier: str, rows: list[Finding], results: Results) -> None:
    suite = ET.SubElement(
        root,
        "testsuite",
        {
            "name": tier,
            **_counts(len(rows), lambda outcome: sum(row.outcome is outcome for row in rows)),
            "timestamp": results.info.started.removesuffix("Z"),
            "hostname": results.info.inventory,
            "time": f"{sum(row.duration_s for row in rows):.3f}",
        },
    )
    for row in rows:
        _add_case(suite, row, results.info.user_lands.get(row.target, ""))


def _add_case(suite: ET.Element, row: Finding, user_land: str) -> None:
    name = f"{row.check}[{row.target}]"
    case = ET.SubElement(suite, "testcase", classname=row.target, name=name, time=f"{row.duration_s:.3f}")
    properties = ET.SubElement(case, "properties")
    ET.SubElement(properties, "property", name="simulated", value=str(row.simulated).lower())
    if user_land:
        ET.SubElement(properties, "property", name="user_land", value=user_land)
    if row.outcome is not Outcome.PASSED:
        element = ET.SubElement(case, KINDS[row.outcome], message=row.cause.translate(UNPRINTABLE))
        evidence = json.dumps(dict(row.evidence), indent=1, default=str)
        element.text = f"Next: {row.next_step}\n{evidence}".translate(UNPRINTABLE)
