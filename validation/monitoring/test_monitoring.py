"""What Prometheus answers; nothing is allocated. docs/checks.md lists the checks; src/gpusmith/checks has them."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.monitoring
@pytest.mark.safe
def test_monitoring(verify: Callable[[str, str], None], check: str, target: str) -> None:
    """One test per check of the tier and target."""
    verify(check, target)
