"""What role gpu_monitoring ships: the counters that its exporter reads, and the rules that its Prometheus evaluates."""

from __future__ import annotations

import csv
import functools

import yaml

from gpusmith.paths import repo_root

ROLE = "gpu_monitoring"
NONE = "none"
"""What the variable of a part says of one that there is not."""
WATCHDOG = "GpusmithWatchdog"
"""Alert that always fires, to show that alerts arrive."""
RARE = frozenset({"DCGM_FI_DEV_XID_ERRORS", "DCGM_EXP_CLOCK_EVENTS_COUNT"})
"""Counters that the exporter may have no value of while there is no event, so that healthy GPUs lack them."""


@functools.cache
def counters() -> tuple[str, ...]:
    """Names of the counters that a healthy GPU has, as far as its model can."""
    path = repo_root() / "roles" / ROLE / "files" / "counters.csv"
    lines = [
        line
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.strip() and not line.startswith("#")
    ]
    rows = [[part.strip() for part in row] for row in csv.reader(lines)]
    return tuple(name for name, kind, *_ in rows if kind != "label" and name not in RARE)


@functools.cache
def rules() -> frozenset[str]:
    """Names of the alerts and records."""
    folder = repo_root() / "roles" / ROLE / "files" / "rules"
    files = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.yml"))]
    return frozenset(
        rule.get("alert") or rule["record"]
        for file in files
        for group in file["groups"]
        for rule in group["rules"]
    )
