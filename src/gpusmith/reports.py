"""One result, four shapes: results.json, junit.xml, report.html, metrics.prom; and the summary on the terminal."""

from __future__ import annotations

import json
import os
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jinja2
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gpusmith.catalog import CATALOG, CLUSTER, TIERS
from gpusmith.errors import ToolError
from gpusmith.findings import Finding, Outcome
from gpusmith.results import Results

NAMES = ("results.json", "junit.xml", "report.html", "metrics.prom")
COLOURS = {
    Outcome.PASSED: "green",
    Outcome.FAILED: "red",
    Outcome.ERROR: "magenta",
    Outcome.SKIPPED: "yellow",
}
WIDEST = 6
"""Nodes that fit beside each other."""
# What XML 1.0 cannot carry, even escaped.
UNPRINTABLE = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127), "?")


def clear(folder: Path) -> None:
    """Make the folder and remove the reports of an earlier run, which must never be read as this one's.

    Raises:
        ToolError: it cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in NAMES:
            (folder / name).unlink(missing_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ToolError(
            f"Report folder '{folder}' cannot be used: {error.strerror}.",
            "Give --report-dir a folder that you can write to.",
        ) from error


def write(results: Results, folder: Path) -> None:
    """Write all reports; each appears whole or not at all, and results.json last.

    Raises:
        ToolError: the folder cannot be written to.
    """
    makers: dict[str, Callable[[Results], bytes]] = {
        "junit.xml": junit,
        "report.html": html,
        "metrics.prom": prometheus,
        "results.json": lambda found: (json.dumps(found.to_json(), indent=2, default=str) + "\n").encode(),
    }
    try:
        for name, make in makers.items():
            beside = folder / f".{name}.{os.getpid()}"
            beside.write_bytes(make(results))
            beside.replace(folder / name)
    except OSError as error:
        raise ToolError(
            f"Reports cannot be written to '{folder}': {error.strerror}.", "Is the disk full?"
        ) from error


def junit(results: Results) -> bytes:
    """JUnit: one suite per tier, one case per check and target."""
    root = ET.Element(
        "testsuites",
        name="gpusmith validation",
        tests=str(len(results.findings)),
        failures=str(results.count(Outcome.FAILED)),
        errors=str(results.count(Outcome.ERROR)),
        skipped=str(results.count(Outcome.SKIPPED)),
        time=f"{results.info.duration_s:.3f}",
    )
    for tier in TIERS:
        rows = [row for row in results.findings if row.check.startswith(tier + ".")]
        if not rows:
            continue

        def count(outcome: Outcome, of: list[Finding] = rows) -> str:
            return str(sum(row.outcome is outcome for row in of))

        suite = ET.SubElement(
            root, "testsuite", name=tier, tests=str(len(rows)), failures=count(Outcome.FAILED), errors=count(Outcome.ERROR),
            skipped=count(Outcome.SKIPPED), timestamp=results.info.started.removesuffix("Z"), hostname=results.info.inventory,
            time=f"{sum(row.duration_s for row in rows):.3f}",
        )  # fmt: skip
        for row in rows:
            name = f"{row.check}[{row.target}]"
            case = ET.SubElement(
                suite, "testcase", classname=row.target, name=name, time=f"{row.duration_s:.3f}"
            )
            properties = ET.SubElement(case, "properties")
            ET.SubElement(properties, "property", name="simulated", value=str(row.simulated).lower())
            if row.outcome is not Outcome.PASSED:
                kind = {Outcome.FAILED: "failure", Outcome.ERROR: "error", Outcome.SKIPPED: "skipped"}[
                    row.outcome
                ]
                element = ET.SubElement(case, kind, message=row.cause.translate(UNPRINTABLE))
                evidence = json.dumps(dict(row.evidence), indent=1, default=str)
                element.text = f"Next: {row.next_step}\n{evidence}".translate(UNPRINTABLE)
    ET.indent(root)
    body: bytes = ET.tostring(root, encoding="utf-8")
    return b"<?xml version='1.0' encoding='utf-8'?>\n" + body + b"\n"


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>gpusmith validation: {{ run.verdict }}</title><style>
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem;color:#1b1f24}
table{border-collapse:collapse;width:100%;margin:1rem 0}
td,th{border:1px solid #d5d9de;padding:.3rem .6rem;text-align:left;vertical-align:top}
th{background:#f4f6f8}
.passed{color:#116329}.failed{color:#b3261e;font-weight:600}
.error{color:#8a2be2;font-weight:600}.skipped{color:#8a6100}
pre{white-space:pre-wrap;margin:.3rem 0;font-size:12px}.note{background:#fff4d6;padding:.6rem 1rem;border-left:4px solid #c98a00}
</style></head><body>
<h1>Validation: <span class="{{ 'passed' if run.exit_code == 0 else 'failed' }}">{{ run.verdict }}</span></h1>
<p>Run {{ run.id }}, started {{ run.started }}, {{ '%.0f' | format(run.duration_s) }} s,
gpusmith {{ run.version }}.
Inventory <code>{{ run.inventory }}</code>
{%- if run.limit %}, limit <code>{{ run.limit }}</code>{% endif %},
tiers {{ run.tiers | join(', ') }}.</p>
{% if run.simulated %}<p class="note">Taken on <b>simulated GPUs</b>: it proves logic, packages, configuration and allocation,
and nothing about CUDA, bandwidth or a driver's behaviour on silicon. Each result says what was not executed.</p>{% endif %}
{% if run.exit_code in (2, 3, 4) %}<p class="note">The run <b>did not come to its end</b>: it stamps no node.</p>
{%- elif not run.complete %}<p class="note">Only a <b>selection</b> of the checks ran: it stamps no node.</p>{% endif %}
<h2>Coverage</h2>
<table><tr><th></th><th>expected</th><th>tested</th><th>busy</th><th>excluded</th></tr>
<tr><th>nodes</th><td>{{ coverage.nodes.expected }}</td><td>{{ coverage.nodes.tested }}</td>
<td>{{ coverage.nodes.busy | join(', ') }}</td>
<td>{% for row in coverage.nodes.excluded %}{{ row.node }}: {{ row.reason }}<br>{% endfor %}</td></tr>
<tr><th>GPUs</th><td>{{ coverage.gpus.expected }}</td><td>{{ coverage.gpus.tested }}</td>
<td>{% for row in coverage.gpus.busy %}{{ row.gpus }} on {{ row.node }}: {{ row.holder }}<br>{% endfor %}</td>
<td>{% for row in coverage.gpus.excluded %}{{ row.gpus }} on {{ row.node }}: {{ row.reason }}<br>{% endfor %}</td></tr></table>
<h2>Checks</h2>
<p>{% for outcome, count in summary.items() %}<span class="{{ outcome }}">{{ count }} {{ outcome }}</span> {% endfor %}</p>
<table><tr><th>check</th><th>target</th><th>outcome</th><th>cause, next step, evidence</th><th>s</th></tr>
{% for check in checks | sort(attribute='outcome', reverse=false) %}
<tr><td>{{ check.id }}<br><small>{{ proves[check.id] }}</small></td><td>{{ check.target }}</td>
<td class="{{ check.outcome }}">{{ check.outcome }}{% if check.simulated %} (simulated){% endif %}</td>
<td>{{ check.cause }}{% if check.next_step %}<br><b>Next:</b> {{ check.next_step }}{% endif %}
{% if check.evidence %}
<details><summary>evidence</summary>
<pre>{{ check.evidence | tojson(indent=1) }}</pre></details>{% endif %}</td>
<td>{{ '%.1f' | format(check.duration_s) }}</td></tr>
{% endfor %}</table></body></html>
"""


def html(results: Results) -> bytes:
    """One page without any other file."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    proves = {check.id: check.proves for check in CATALOG.values()}
    data: dict[str, Any] = json.loads(json.dumps(results.to_json(), default=str))
    return environment.from_string(PAGE).render(**data, proves=proves).encode()


def prometheus(results: Results) -> bytes:
    """For node_exporter's textfile collector."""
    registry = CollectorRegistry()
    simulated = str(results.info.simulated).lower()

    def gauge(name: str, text: str, labels: tuple[str, ...] = ()) -> Gauge:
        return Gauge(f"gpusmith_validation_{name}", text, labels, registry=registry)

    checks = gauge("check", "1 if the check had this outcome", ("check", "target", "outcome", "simulated"))
    for row in results.findings:
        checks.labels(row.check, row.target, row.outcome.value, str(row.simulated).lower()).set(1)
    summary = gauge("checks", "Number of checks by outcome", ("outcome", "simulated"))
    for outcome in Outcome:
        summary.labels(outcome.value, simulated).set(results.count(outcome))
    gpus = gauge("gpus", "GPUs by what became of them", ("node", "state", "simulated"))
    for name, part in results.coverage.items():
        held, out = sum(part.busy.values()), sum(part.excluded.values())
        states = {"expected": part.expected, "tested": len(part.tested), "busy": held, "excluded": out}
        for state, count in states.items():
            gpus.labels(name, state, simulated).set(count)
    gauge("exit_code", "Exit code of the run").set(int(results.exit_code))
    gauge("duration_seconds", "Duration of the run").set(results.info.duration_s)
    gauge("finished_timestamp_seconds", "When the run ended").set_to_current_time()
    return bytes(generate_latest(registry))


def terminal(results: Results, folder: Path, console: Console) -> None:
    """Verdict last, where a person looks first."""
    console.print(_table(results))

    def line(text: str) -> None:
        console.print(text, soft_wrap=True)

    for row in results.findings:
        if row.outcome in (Outcome.FAILED, Outcome.ERROR):
            line(
                f"[bold {COLOURS[row.outcome]}]{row.outcome.value.upper()} {row.check}[/] on {escape(row.target)}"
            )
            line(f"  cause: {escape(row.cause)}")
            if row.next_step:
                line(f"  next:  {escape(row.next_step)}")
    for cause, checks in _skipped(results).items():
        line(f"[yellow]skipped[/] {', '.join(checks)}: {escape(cause)}")
    for text in _coverage(results):
        line(text)
    line(f"Reports: {escape(str(folder))}/ with report.html, results.json, junit.xml, metrics.prom")
    colour = "green" if results.exit_code == 0 else "red"
    line(
        f"[bold {colour}]{escape(results.verdict)}[/] (exit code {int(results.exit_code)}, {results.info.duration_s:.0f} s)"
    )


def _table(results: Results) -> Table:
    """Checks by targets; with many nodes, counts."""
    nodes = results.info.nodes
    targets = (*nodes, CLUSTER) if len(nodes) <= WIDEST else ("all targets",)
    table = Table(title="Validation", title_justify="left")
    table.add_column("check")
    for name in targets:
        table.add_column(name, justify="center")
    by_check: dict[str, list[Finding]] = {}
    for row in results.findings:
        by_check.setdefault(row.check, []).append(row)
    for check, rows in by_check.items():
        if len(nodes) <= WIDEST:
            of = {row.target: row.outcome for row in rows}
            cells = [
                f"[{COLOURS[of[target]]}]{of[target].value}[/]" if target in of else "" for target in targets
            ]
        else:
            counts = {outcome: sum(row.outcome is outcome for row in rows) for outcome in Outcome}
            cells = [
                ", ".join(
                    f"[{COLOURS[kind]}]{count} {kind.value}[/]" for kind, count in counts.items() if count
                )
            ]
        table.add_row(check, *cells)
    return table


def _skipped(results: Results) -> dict[str, list[str]]:
    """Skipped checks by their reason, each reason once."""
    found: dict[str, list[str]] = {}
    for row in results.findings:
        if row.outcome is Outcome.SKIPPED:
            checks = found.setdefault(row.cause, [])
            if row.check not in checks:
                checks.append(row.check)
    return found


def _coverage(results: Results) -> Iterator[str]:
    """The denominators, and who is not in the numerators and why."""
    data = results.to_json()["coverage"]
    for kind in ("nodes", "GPUs"):
        part = data[kind.lower()]
        busy, excluded = _sum(part["busy"]), _sum(part["excluded"])
        yield f"{kind}: {part['expected']} expected, {part['tested']} tested, {busy} busy, {excluded} excluded"
    for row in data["gpus"]["busy"]:
        yield f"  busy: {row['gpus']} on {escape(row['node'])}, held by {escape(row['holder'])}"
    for row in data["gpus"]["excluded"]:
        yield f"  excluded: {row['gpus']} on {escape(row['node'])}: {escape(row['reason'])}"
    if results.info.simulated:
        yield "[yellow]Simulated GPUs: nothing is proved about CUDA, bandwidth or a driver on silicon.[/]"
    if results.ended is not None:
        yield "[yellow]The run did not come to its end; it stamps no node.[/]"
    elif not results.complete:
        yield "[yellow]Only a selection of the checks ran; it stamps no node.[/]"


def _sum(rows: list[Any]) -> int:
    return sum(row["gpus"] if isinstance(row, dict) and "gpus" in row else 1 for row in rows)
