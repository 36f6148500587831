"""What concerns the whole cluster."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.check("cluster.api")
def test_cluster_answers(verify: Callable[[], None]) -> None:
    """The API server answers, and the lists can be read."""
    verify()


@pytest.mark.check("cluster.leftovers")
def test_nothing_is_left_of_earlier_runs(verify: Callable[[], None]) -> None:
    """What a killed run left is removed."""
    verify()


@pytest.mark.check("cluster.runtime-class")
def test_runtime_class_exists(verify: Callable[[], None]) -> None:
    """The RuntimeClass of the GPU runtime is there."""
    verify()
