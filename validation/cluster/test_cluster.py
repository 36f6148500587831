"""What the API server's lists tell; nothing is allocated. docs/checks.md lists the checks; src/gpusmith/checks has them."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.cluster
@pytest.mark.safe
def test_cluster(verify: Callable[[str, str], None], check: str, target: str) -> None:
    """One test per check of the tier and target."""
    verify(check, target)
