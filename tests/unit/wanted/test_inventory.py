"""What hosts of an inventory say together: one kubeconfig."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpusmith.errors import InputError
from tests.unit.hosts import build

Variables = Callable[..., dict[str, Any]]


def test_a_host_without_kubeconfig_is_named(variables: Variables) -> None:
    tree = {"gpu_nodes": {"hosts": ["a", "b"]}}
    rows = {"a": variables(), "b": variables(gpusmith_kubeconfig="")}
    with pytest.raises(InputError, match="Host 'b': 'gpusmith_kubeconfig' is not set"):
        _ = build(tree, rows, "x", "").kubeconfig


def test_one_kubeconfig_may_be_called_in_two_ways(variables: Variables) -> None:
    tree = {"gpu_nodes": {"hosts": ["a", "b"]}}
    names = {"a": "~/kubeconfig", "b": str(Path.home() / "kubeconfig")}
    rows = {host: variables(gpusmith_kubeconfig=name) for host, name in names.items()}
    assert build(tree, rows, "x", "").kubeconfig == str((Path.home() / "kubeconfig").resolve())


def test_several_kubeconfigs_are_refused(variables: Variables) -> None:
    tree = {"gpu_nodes": {"hosts": ["a", "b"]}}
    rows = {"a": variables(gpusmith_kubeconfig="/a"), "b": variables(gpusmith_kubeconfig="/b")}
    with pytest.raises(InputError, match="several kubeconfigs"):
        _ = build(tree, rows, "x", "").kubeconfig
