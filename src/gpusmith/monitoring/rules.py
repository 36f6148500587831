"""The rules that role gpu_monitoring ships, as Prometheus reads them, and the counters that its exporter is given."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gpusmith.paths import repo_root

ACCEPTED_XIDS = "13|31|43|45|68|109"
"""What stands in the rules for 'validation_accepted_xids'; the role puts the inventory's codes in its place."""


@dataclass(frozen=True)
class Rule:
    """An alert or a record.

    Attributes:
        group: it is in.
        alert: its name; empty for a record.
        record: its name; empty for an alert.
        expr: PromQL.
        wait: how long it must hold before the alert fires; empty if it fires at once.
        stay: how long the alert fires on; empty if it ends with its cause.
        labels: that it adds.
        annotations: for people.
    """

    group: str
    expr: str
    alert: str = ""
    record: str = ""
    wait: str = ""
    stay: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def severity(self) -> str:
        """Of an alert: critical, warning, info or none."""
        return self.labels.get("severity", "")


def files() -> Path:
    """The folder of the role with what it ships."""
    return repo_root() / "roles/gpu_monitoring/files"


def _rule(group: str, row: Mapping[str, Any]) -> Rule:
    return Rule(
        group,
        str(row["expr"]),
        row.get("alert", ""),
        row.get("record", ""),
        row.get("for", ""),
        row.get("keep_firing_for", ""),
        row.get("labels") or {},
        row.get("annotations") or {},
    )


@cache
def load() -> tuple[Rule, ...]:
    """All rules, by file and in its order."""
    return tuple(
        _rule(group["name"], row)
        for path in sorted((files() / "rules").glob("*.yml"))
        for group in yaml.safe_load(path.read_text())["groups"]
        for row in group["rules"]
    )


def alerts() -> Mapping[str, tuple[Rule, ...]]:
    """The rules of each alert, by its name."""
    found: dict[str, tuple[Rule, ...]] = {}
    for rule in load():
        if rule.alert:
            found[rule.alert] = (*found.get(rule.alert, ()), rule)
    return found


def counters() -> tuple[tuple[str, str, str], ...]:
    """Field, type and help of each counter, as the exporter reads the file."""
    lines = (files() / "counters.csv").read_text().splitlines()
    rows = csv.reader(line for line in lines if line and not line.startswith("#"))
    return tuple((name.strip(), kind.strip(), words.strip()) for name, kind, words in rows)
