"""What hosts of an inventory say together: one kubeconfig."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpusmith.errors import InputError
from tests.unit.hosts import build

Variables = Callable[..., dict[str, Any]]


def test_a_host_without_kubeconfig_is_named(variables: Variables) -> None:
    tree = {"gpu_nodes": {"hosts": ["a", "b"]}}
    rows = {"a": variables(), "b": variables(gpusmith_kubeconfig="")}
    with pytest.raises(InputError, match="Host 'b' has no 'gpusmith_kubeconfig'"):
        _ = build(tree, rows, "x", "").kubeconfig


def test_several_kubeconfigs_are_refused(variables: Variables) -> None:
    tree = {"gpu_nodes": {"hosts": ["a", "b"]}}
    rows = {"a": variables(gpusmith_kubeconfig="/a"), "b": variables(gpusmith_kubeconfig="/b")}
    with pytest.raises(InputError, match="several kubeconfigs"):
        _ = build(tree, rows, "x", "").kubeconfig
