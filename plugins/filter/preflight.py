"""Filter for the report of preflight."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpusmith.preflight import table


def preflight_table(
    hosts: Sequence[str], hostvars: Mapping[str, Any], end: str, name: str = "__preflight_answer"
) -> list[str]:
    """Lines for a person from the registered results, and a last line; empty if no host is refused."""
    lines = table.table({host: table.of_host(hostvars[host].get(name)) for host in hosts})
    return [*lines, end] if lines else []


class FilterModule:
    """The filters by name."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Called by Ansible."""
        return {"preflight_table": preflight_table}
