"""Services of systemd."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Service:
    """A unit.

    Attributes:
        enabled: 'not-found' if there is no such unit.
        changed: its files are not those any more that systemd has read ('NeedDaemonReload').
    """

    active: str
    enabled: str
    started_unix: float | None = None
    changed: bool = False
