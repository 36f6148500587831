"""Whether a run has nodes to work on."""

from __future__ import annotations

from gpusmith.errors import Refusal
from gpusmith.inventory.target import (
    Run,
    check_controller,
    check_limit,
    check_sources,
    check_target,
    on_hosts,
)
from gpusmith.wording import shorten


def test_a_run_without_gpu_nodes_is_refused() -> None:
    (refusal,) = check_target(Run("gpu_nodes", [], ["localhost"]))
    assert "no host in group" in refusal.message
    (refusal,) = check_target(Run("gpu_nodes", ["gpu-1"], ["cp-1"], "cp-1"))
    assert "'cp-1'" in refusal.message
    assert "'gpu-1'" in refusal.hint
    (refusal,) = check_target(Run("gpu_nodes", [], ["localhost"], sources=["/no/where", "a,b"]))
    assert "'/no/where' does not exist" in refusal.message
    assert check_target(Run("gpu_nodes", ["gpu-1", "gpu-2"], ["gpu-2"], "gpu-2")) == []


def test_a_run_works_on_the_members_that_the_limit_leaves() -> None:
    assert Run("gpu_nodes", ["gpu-1", "gpu-2"], ["localhost", "gpu-2"]).nodes == ["gpu-2"]


def test_a_playbook_may_want_its_nodes_named() -> None:
    run = Run("gpu_nodes", ["gpu-1"], ["gpu-1"])
    assert check_limit(run, "") == []
    (refusal,) = check_limit(run, "This takes nodes out of the cluster")
    assert str(refusal) == "This takes nodes out of the cluster: name them with -l. Nothing was changed."
    assert check_limit(Run("gpu_nodes", ["gpu-1"], ["gpu-1"], "gpu-1"), "This takes nodes out") == []


def test_a_second_inventory_is_refused() -> None:
    assert check_sources(Run("g", [], [], sources=["one"])) == []
    (refusal,) = check_sources(Run("g", [], [], sources=["one", "two"]))
    assert "'two'" in refusal.message


def test_a_reason_names_its_hosts() -> None:
    one = on_hosts(Refusal("Variable 'a' is wrong.", "Do."), ["gpu-1"])
    assert str(one) == "Host 'gpu-1': variable 'a' is wrong. Do."
    assert on_hosts(one, ["gpu-1", "gpu-2"]).message.startswith("Hosts 'gpu-1', 'gpu-2': ")


def test_long_lists_are_shortened() -> None:
    assert shorten([f"gpu-{n}" for n in range(8)]).endswith("and 3 more")


def test_a_controller_that_cannot_keep_claims_is_refused_by_name() -> None:
    assert check_controller("linux") == []
    (refusal,) = check_controller("darwin")
    assert "must run on Linux, and this machine runs 'darwin'" in str(refusal)
