"""What one probe of each node tells; nothing is changed. docs/checks.md lists the checks; src/gpusmith/checks has them."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.nodes
@pytest.mark.safe
def test_nodes(verify: Callable[[str, str], None], check: str, target: str) -> None:
    """One test per check of the tier and target."""
    verify(check, target)
