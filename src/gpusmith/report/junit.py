"""junit.xml: one suite per tier, one case per check and target; with many nodes one per check, as programs of CI show it."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from gpusmith.checks.findings import Finding, Outcome, Skip
from gpusmith.checks.register import CLUSTER, TIERS
from gpusmith.report.causes import alike, named_targets
from gpusmith.report.results import EVERY_NODE, NODES_BY_NAME, Results

# What XML 1.0 cannot carry, even escaped.
UNPRINTABLE = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127), "?")
KINDS = {Outcome.FAILED: "failure", Outcome.ERROR: "error", Outcome.SKIPPED: "skipped"}


def junit(results: Results) -> bytes:
    """The document."""
    findings = results.findings
    if len(results.info.nodes) > NODES_BY_NAME:
        findings = tuple(_grouped(findings))
    root = ET.Element(
        "testsuites",
        {
            "name": "gpusmith validation",
            **_counts(findings),
            "time": f"{results.info.duration_s:.3f}",
        },
    )
    suites = []
    for tier in TIERS:
        rows = [row for row in findings if row.check.startswith(tier + ".")]
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


def _grouped(findings: Iterable[Finding]) -> Iterator[Finding]:
    """One for each check, with causes by nodes. What could not be asked of one node did not pass."""
    by_check: dict[str, list[Finding]] = {}
    for row in findings:
        by_check.setdefault(row.check, []).append(row)
    for check, rows in by_check.items():
        counts = Counter(row.outcome for row in rows)
        if any(row.skip is Skip.BLOCKED for row in rows) or set(counts) == {Outcome.SKIPPED}:
            worst = Outcome.SKIPPED
        else:
            worst = Outcome.PASSED
        worst = next((bad for bad in (Outcome.FAILED, Outcome.ERROR) if bad in counts), worst)
        told = alike(row for row in rows if row.outcome is not Outcome.PASSED)
        yield Finding(
            check,
            CLUSTER if rows[0].target == CLUSTER else EVERY_NODE,
            worst,
            "\n".join(f"{named_targets(cause.targets)}: {cause.text}" for cause in told),
            {outcome.value: count for outcome, count in counts.items()},
            "\n".join(dict.fromkeys(cause.next_step for cause in told)),
            simulated=any(row.simulated for row in rows),
            duration_s=sum(row.duration_s for row in rows),
        )


def _counts(rows: Sequence[Finding]) -> dict[str, str]:
    counts = Counter(row.outcome for row in rows)
    return {
        "tests": str(len(rows)),
        "failures": str(counts[Outcome.FAILED]),
        "errors": str(counts[Outcome.ERROR]),
        "skipped": str(counts[Outcome.SKIPPED]),
    }


def _suite(tier: str, rows: list[Finding], results: Results) -> ET.Element:
    return ET.Element(
        "testsuite",
        {
            "name": tier,
            **_counts(rows),
            "timestamp": results.info.started.removesuffix("Z"),
            "hostname": results.info.inventory,
            "time": f"{sum(row.duration_s for row in rows):.3f}",
        },
    )


def _case(row: Finding, user_land: str) -> bytes:
    name = row.check if row.target == EVERY_NODE else f"{row.check}[{row.target}]"
    case = ET.Element("testcase", classname=row.target, name=name, time=f"{row.duration_s:.3f}")
    properties = ET.SubElement(case, "properties")
    ET.SubElement(properties, "property", name="simulated", value=str(row.simulated).lower())
    if row.target == EVERY_NODE:
        for outcome, count in row.evidence.items():
            ET.SubElement(properties, "property", name=outcome, value=str(count))
    if user_land:
        ET.SubElement(properties, "property", name="user_land", value=user_land)
    if row.outcome is not Outcome.PASSED:
        element = ET.SubElement(case, KINDS[row.outcome], message=row.cause.translate(UNPRINTABLE))
        evidence = json.dumps(dict(row.evidence), indent=1, default=str)
        element.text = f"Next: {row.next_step}\n{evidence}".translate(UNPRINTABLE)
    ET.indent(case, level=2)
    text: bytes = ET.tostring(case, encoding="utf-8")
    return b"    " + text
