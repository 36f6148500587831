"""results.json (schema ``gpusmith.results/1``), which stamps and the other formats read."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from gpusmith.checks.findings import Finding, Outcome
from gpusmith.names import RESULTS_SCHEMA
from gpusmith.report.results import Results

Document = dict[str, Any]

NO_CHECKS = "[]\n}"
"""How the text ends without checks, which come last."""


def to_json(results: Results, findings: Iterable[Finding] | None = None) -> Document:
    """The content of results.json; with other findings than all, of a part of it."""
    return {
        "schema": RESULTS_SCHEMA,
        "run": _run(results),
        "summary": {outcome.value: results.count(outcome) for outcome in Outcome},
        "coverage": {"nodes": _nodes(results), "gpus": _gpus(results), "required": _required(results)},
        "checks": [_check(finding) for finding in (results.findings if findings is None else findings)],
    }


def parts(results: Results) -> Iterator[bytes]:
    """The file, part by part, since of thousands of nodes it is large; evidence that JSON has no form for is a string."""
    frame = _dumped(to_json(results, ()))
    yield (f"{frame.removesuffix(NO_CHECKS)}[" if results.findings else frame).encode()
    for place, row in enumerate(results.findings):
        yield f"{',' if place else ''}\n{textwrap.indent(_dumped(_check(row)), ' ' * 4)}".encode()
    yield b"\n  ]\n}\n" if results.findings else b"\n"


def _dumped(part: Document) -> str:
    return json.dumps(part, indent=2, default=str)


def plain(results: Results, findings: Iterable[Finding] | None = None) -> Document:
    """The content, with these findings, as whoever reads the file gets it."""
    data: Document = json.loads(json.dumps(to_json(results, findings), default=str))
    return data


def _run(results: Results) -> Document:
    info = results.info
    return {
        "id": info.id,
        "started": info.started,
        "duration_s": round(info.duration_s, 3),
        "version": info.version,
        "inventory": info.inventory,
        "limit": info.limit,
        "tiers": list(info.tiers),
        "simulated": info.simulated,
        "user_lands": dict(info.user_lands),
        "complete": results.complete,
        "nodes": list(info.nodes),
        "maintenance_id": info.maintenance_id,
        "driver_version": info.driver_version,
        "gpu_layout": info.gpu_layout,
        "replay_of": info.replay_of,
        "not_replayed": list(info.not_replayed),
        "facts": {name: dict(facts) for name, facts in results.facts.items()},
        "traits": {name: list(traits) for name, traits in results.traits.items()},
        "verdict": results.verdict,
        "exit_code": int(results.exit_code),
    }


def _nodes(results: Results) -> Document:
    return {
        "expected": len(results.info.nodes),
        "tested": len(results.tested_nodes),
        "busy": [name for name, row in results.coverage.items() if row.busy and not row.tested],
        "excluded": [{"node": name, "reason": reason} for name, reason in results.node_reasons.items()],
    }


def _gpus(results: Results) -> Document:
    rows = results.coverage
    tested = [{"node": name, "uuid": uuid} for name, row in rows.items() for uuid in row.tested]
    return {
        "expected": sum(row.expected for row in rows.values()),
        "tested": len(tested),
        "busy": [
            {"node": name, "gpus": count, "holder": holder}
            for name, row in rows.items()
            for holder, count in row.busy.items()
        ],
        "excluded": [
            {"node": name, "gpus": count, "reason": reason}
            for name, row in rows.items()
            for reason, count in row.excluded.items()
        ],
        "uuids": tested,
        "shared": [
            {"node": name, "gpus": row.expected, "shares": row.shares}
            for name, row in rows.items()
            if row.shares > 1
        ],
    }


def _required(results: Results) -> Document:
    asked = results.demand
    return {
        "rule": asked.rule,
        "nodes": asked.wanted["nodes"],
        "gpus": asked.wanted.get("GPUs"),
        "met": not asked.missed,
    }


def _check(finding: Finding) -> Document:
    return {
        "id": finding.check,
        "target": finding.target,
        "outcome": finding.outcome.value,
        "skip": finding.skip.value if finding.skip else None,
        "simulated": finding.simulated,
        "cause": finding.cause,
        "evidence": dict(finding.evidence),
        "next_step": finding.next_step,
        "duration_s": round(finding.duration_s, 3),
    }
