"""Filters for the report of preflight."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.module_utils import preflight


def preflight_findings(
    hosts: Sequence[str], hostvars: Mapping[str, Any], name: str = "__preflight_answer"
) -> dict[str, Any]:
    """Findings by host, from the registered results; a host without a result was not reached."""
    return {host: preflight.of_host(hostvars[host].get(name)) for host in hosts}


def preflight_table(findings: Mapping[str, Any], end: str = "") -> list[str]:
    """The findings as lines for a person and a last line; empty if there are none."""
    lines: list[str] = preflight.table(findings)
    return [*lines, end] if lines and end else lines


class FilterModule:
    """The filters by name."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Called by Ansible."""
        return {"preflight_findings": preflight_findings, "preflight_table": preflight_table}
