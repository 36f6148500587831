"""The summary on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gpusmith.checks.findings import Finding, Outcome
from gpusmith.checks.register import CLUSTER
from gpusmith.report.causes import Cause, alike, causes, headline, named_targets
from gpusmith.report.denominators import denominators
from gpusmith.report.results import ExitCode, Results

COLOURS = {
    Outcome.PASSED: "green",
    Outcome.FAILED: "red",
    Outcome.ERROR: "magenta",
    Outcome.SKIPPED: "yellow",
}
WIDEST = 6
"""Nodes that fit beside each other."""
MOST_CHECKS = 8
"""Checks that are named where they share a cause; the reports have all."""
UNWRITTEN = "ERROR: the reports could not be written, so this run proves nothing"
REACHABLE = "nodes.reachable"


def terminal(results: Results, folder: Path, console: Console, unwritten: str = "") -> None:
    """Verdict last, where a person looks first.

    Args:
        results: of the run.
        folder: of its reports.
        console: the terminal.
        unwritten: why there are no reports; empty if there are.
    """
    silent = _silent(results)
    table = _table(results, silent)
    if table.row_count:
        console.print(table)

    def line(text: str) -> None:
        console.print(text, soft_wrap=True, emoji=False)

    if silent and table.row_count:
        line(f"Not in the table, since they do not answer: {escape(named_targets(silent))}")
    found = causes(results)
    for cause in found:
        line(
            f"[bold {COLOURS[cause.outcome]}]{cause.outcome.value.upper()} {_checks(cause)}[/] on {_targets(cause)}"
        )
        told = {"cause": cause.text, "next": cause.next_step, "common": cause.common, "also": cause.also}
        for word, text in told.items():
            if text:
                line(f"  {word + ':':6} {escape(text)}")
    notes: dict[tuple[str, str], list[str]] = {}
    for row in results.findings:
        for note in row.evidence.get("notes", ()):
            notes.setdefault((row.check, note), []).append(row.target)
    for (check, note), names in notes.items():
        line(f"[yellow]noted[/] {check} on {escape(named_targets(names))}: {escape(note)}")
    for cause in alike(row for row in results.findings if row.outcome is Outcome.SKIPPED):
        line(f"[yellow]skipped[/] {_checks(cause)} on {_targets(cause)}: {escape(cause.text)}")
    line(escape(headline(results, found)))
    for text in _coverage(results):
        line(text)
    line(
        escape(unwritten)
        or f"Reports: {escape(str(folder))}/ with report.html, results.json, junit.xml, metrics.prom"
    )
    verdict, code = (
        (UNWRITTEN, ExitCode.BROKEN) if unwritten else (escape(results.verdict), results.exit_code)
    )
    colour = "green" if code is ExitCode.PASSED else "red"
    line(f"[bold {colour}]{verdict}[/] (exit code {int(code)}, {results.info.duration_s:.0f} s)")


def _table(results: Results, silent: Sequence[str]) -> Table:
    """Checks by targets; with many nodes, counts. Of nodes that do not answer that alone is known, and is said below."""
    nodes = [name for name in results.info.nodes if name not in silent]
    targets = (*nodes, CLUSTER) if len(nodes) <= WIDEST else ("all targets",)
    table = Table(title="Validation", title_justify="left")
    table.add_column("check")
    for name in targets:
        table.add_column(name, justify="center")
    by_check: dict[str, list[Finding]] = {}
    for row in results.findings:
        if row.target not in silent:
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


def _silent(results: Results) -> list[str]:
    """Nodes that do not answer."""
    return [
        row.target
        for row in results.findings
        if row.check == REACHABLE and row.outcome in (Outcome.FAILED, Outcome.ERROR)
    ]


def _checks(cause: Cause) -> str:
    """Checks, or how many."""
    names = cause.checks
    return ", ".join(names) if len(names) <= MOST_CHECKS else f"{len(names)} checks"


def _targets(cause: Cause) -> str:
    return escape(named_targets(cause.targets))


def _coverage(results: Results) -> Iterator[str]:
    """The denominators, and who is not in the numerators and why."""
    nodes, gpus = denominators(results)
    yield str(nodes)
    yield str(gpus)
    for reason in gpus.reasons:
        yield f"  {escape(str(reason))}"
    missed = results.demand.missed
    if missed:
        yield f"[red]Only {missed} were tested; {escape(results.demand.rule)} must be (--min-coverage).[/]"
    if given := results.info.given:
        yield f"Tested{_upgrade(results)} for {escape(given)}, whatever the inventory says."
    if results.info.simulated:
        yield "[yellow]Simulated GPUs: nothing is proved about CUDA, bandwidth or a driver on silicon.[/]"
    for text, names in results.info.by_user_land.items():
        yield f"[yellow]{escape(', '.join(names))}: {escape(text)}. Nothing is proved about that distribution's own programs.[/]"
    if results.ended is not None:
        yield "[yellow]The run did not come to its end; it stamps no node.[/]"
    elif not results.complete:
        yield "[yellow]Only a selection of the checks ran; it stamps no node.[/]"


def _upgrade(results: Results) -> str:
    run = results.info.maintenance_id
    return f" in maintenance {escape(run)}, with the nodes that it cordoned," if run else ""
