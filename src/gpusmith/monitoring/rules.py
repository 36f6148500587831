"""The rules that role gpu_monitoring ships, as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from gpusmith.data import monitoring

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
        for groups in monitoring.groups().values()
        for group in groups
        for row in group["rules"]
    )


def alerts() -> Mapping[str, tuple[Rule, ...]]:
    """The rules of each alert, by its name."""
    found: dict[str, tuple[Rule, ...]] = {}
    for rule in load():
        if rule.alert:
            found[rule.alert] = (*found.get(rule.alert, ()), rule)
    return found
