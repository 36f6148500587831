"""What pods on each node tell; busy GPUs are left alone. docs/checks.md lists the checks; src/gpusmith/workloads has them."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.workloads
def test_workloads(verify: Callable[[str, str], None], check: str, target: str) -> None:
    """One test per check of the tier and target."""
    verify(check, target)
