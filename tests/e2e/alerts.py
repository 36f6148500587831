"""What the lab's Prometheus says: values, and alerts that are due or must not be."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from gpusmith.wait import Deadline, Done, NotYet, wait_until
from tests.e2e.harness import Lab

WHERE = "gpusmith-monitoring"
LOUD = ("critical", "warning")
"""Severities of alerts about GPUs and nodes, not about how they are used."""
Alert = Mapping[str, Any]


@dataclass(frozen=True)
class Prometheus:
    """The lab's own, asked through the API server."""

    lab: Lab

    def query(self, text: str) -> list[dict[str, Any]]:
        """Samples of now."""
        found: list[dict[str, Any]] = self.lab.prometheus(f"query?query={quote(text)}")["result"]
        return found

    def alerts(self) -> list[Alert]:
        """All that fire or are about to, but the one that always does."""
        rows = self.lab.prometheus("alerts")["alerts"]
        return [row for row in rows if row["labels"]["alertname"] != "GpusmithWatchdog"]

    def wait(self, what: str, holds: Callable[[list[Alert]], bool], seconds: float) -> list[Alert]:
        """The alerts, as soon as they are as they should be."""

        def look() -> Done[list[Alert]] | NotYet:
            now = self.alerts()
            return Done(now) if holds(now) else NotYet(f"alerts: {shown(now)}")

        return wait_until(what, look, Deadline(seconds), tick=2.0)

    @contextmanager
    def no_alarm(self) -> Iterator[None]:
        """Nothing about GPUs and nodes begins to fire meanwhile.

        One may become pending: that a node is in work is known up to half a minute after the work begins and ends.
        """
        begin = time.time()
        yield
        over = f"[{int(time.time() - begin) + 5}s]"
        due = f'ALERTS{{alertstate="firing",severity=~"{"|".join(LOUD)}"}}'
        # An alert of before may stay for as long as its rule says.
        fired = self.query(f"max_over_time({due}{over}) unless {due} @ {begin:.0f}")
        assert not fired, [row["metric"] for row in fired]


def shown(alerts: list[Alert]) -> str:
    """Names and nodes."""
    return str(sorted({(row["labels"]["alertname"], row["labels"].get("node", "")) for row in alerts}))


def named(alerts: list[Alert], name: str, node: str) -> list[Alert]:
    """Those of one rule about one node."""
    return [row for row in alerts if (row["labels"]["alertname"], row["labels"].get("node")) == (name, node)]


def loud(alerts: list[Alert]) -> list[Alert]:
    """Those about GPUs and nodes."""
    return [row for row in alerts if row["labels"]["severity"] in LOUD]
