"""metrics.prom: for node_exporter's textfile collector."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from gpusmith.checks.findings import Outcome
from gpusmith.report.results import Results


def prometheus(results: Results) -> bytes:
    """The metrics of a run."""
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
    lands = gauge(
        "user_land", "1 for nodes whose user land is not their distribution's", ("node", "user_land")
    )
    for name, text in results.info.user_lands.items():
        lands.labels(name, text).set(1)
    gauge("exit_code", "Exit code of the run").set(int(results.exit_code))
    gauge("duration_seconds", "Duration of the run").set(results.info.duration_s)
    gauge("finished_timestamp_seconds", "When the run ended").set_to_current_time()
    return bytes(generate_latest(registry))
