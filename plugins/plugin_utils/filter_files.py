"""What files of filters share."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def filter_module(*functions: Callable[..., Any]) -> type:
    """The class that Ansible looks for in a file of filters, which go by the names of their functions."""

    class FilterModule:
        """Filters of the file."""

        def filters(self) -> dict[str, Callable[..., Any]]:
            """By name."""
            return {function.__name__: function for function in functions}

    return FilterModule
