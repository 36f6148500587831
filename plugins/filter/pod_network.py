"""Filter on the configuration of a pod network."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpusmith.expect import pod_network


def pod_bridges(slurped: Sequence[Mapping[str, Any]]) -> list[str]:
    """Bridges that files name which M(ansible.builtin.slurp) read."""
    return pod_network.bridges(
        base64.b64decode(row.get("content", "")).decode(errors="replace") for row in slurped
    )


class FilterModule:
    """The filters by name."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Called by Ansible."""
        return {"pod_bridges": pod_bridges}
