"""metrics.prom: for node_exporter's textfile collector."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from gpusmith.checks.findings import Finding, Outcome
from gpusmith.report.results import Results
from gpusmith.report.values import measured

NAME = "gpusmith_validation_{}"


def prometheus(results: Results) -> Iterator[bytes]:
    """The metrics of a run, check by check: there is one for each check and node."""
    for place, (_, rows) in enumerate(groupby(results.findings, key=lambda row: row.check)):
        text = _of_check(rows)
        # Help and type are told once.
        yield text if place == 0 else text.split(b"\n", 2)[2]
    yield _of_run(results)


def _of_check(rows: Iterable[Finding]) -> bytes:
    registry = CollectorRegistry()
    labels = ("check", "target", "outcome", "simulated")
    checks = Gauge(NAME.format("check"), "1 if the check had this outcome", labels, registry=registry)
    for row in rows:
        checks.labels(row.check, row.target, row.outcome.value, str(row.simulated).lower()).set(1)
    return bytes(generate_latest(registry))


def _of_run(results: Results) -> bytes:
    registry = CollectorRegistry()
    simulated = str(results.info.simulated).lower()

    def gauge(name: str, text: str, labels: tuple[str, ...] = ()) -> Gauge:
        return Gauge(NAME.format(name), text, labels, registry=registry)

    values = gauge(
        "measured",
        "Value that a check has measured, of a GPU or a node",
        ("check", "target", "gpu", "name", "simulated"),
    )
    for row in results.findings:
        for uuid, name, value in measured(row.evidence):
            values.labels(row.check, row.target, uuid, name, str(row.simulated).lower()).set(value)
    summary = gauge("checks", "Number of checks by outcome", ("outcome", "simulated"))
    for outcome in Outcome:
        summary.labels(outcome.value, simulated).set(results.count(outcome))
    gpus = gauge("gpus", "GPUs by what became of them", ("node", "state", "simulated"))
    for name, part in results.coverage.items():
        held, out = sum(part.busy.values()), sum(part.excluded.values())
        states = {"expected": part.expected, "tested": len(part.tested), "busy": held, "excluded": out}
        for state, count in states.items():
            gpus.labels(name, state, simulated).set(count)
    lands = gauge(
        "user_land", "1 for nodes whose user land is not their distribution's", ("node", "user_land")
    )
    for name, text in results.info.user_lands.items():
        lands.labels(name, text).set(1)
    gauge("exit_code", "Exit code of the run").set(int(results.exit_code))
    gauge("duration_seconds", "Duration of the run").set(results.info.duration_s)
    gauge("finished_timestamp_seconds", "When the run ended").set_to_current_time()
    return bytes(generate_latest(registry))
