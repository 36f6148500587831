"""Fixtures of the project's own tests; the product's suite is in validation/."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusmith.paths import repo_root


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return repo_root()
