"""What filters share that plan from a node's record."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ansible.errors import AnsibleFilterError

from gpusmith.errors import GpusmithError

Plan = Callable[..., dict[str, Any]]


def of_record(plan: Plan) -> Plan:
    """Name the filter and what it needs if it is given no record."""

    @wraps(plan)
    def named(*given: Any) -> dict[str, Any]:
        try:
            return plan(*given)
        except GpusmithError as error:
            raise AnsibleFilterError(
                f"'{plan.__name__}' needs the record of 'gpusmith.gpu.node_state'. {error.message}"
            ) from error

    return named


def filter_module(*functions: Callable[..., Any]) -> type:
    """The class that Ansible looks for in a file of filters, which go by the names of their functions."""

    class FilterModule:
        """Filters of the file."""

        def filters(self) -> dict[str, Callable[..., Any]]:
            """By name."""
            return {function.__name__: function for function in functions}

    return FilterModule
