"""CUDA toolkits of a node, with its driver and its GPUs."""

from __future__ import annotations

import pytest

from gpusmith.checks.cuda import cuda_toolkits
from gpusmith.checks.findings import CannotAsk, NotApplicable
from gpusmith.expect.steps import upgrade_driver
from gpusmith.problems import Cure
from tests.faults.fault import Record
from tests.unit.checks.judged import Facts

OLD = "570.172.08"


@pytest.mark.parametrize(
    ("joined", "step", "cure"),
    [
        (True, upgrade_driver("gpu-1", "580"), Cure.UPGRADE),
        (False, "set 'nvidia_driver_version' to a version of such a branch", Cure.PERSON),
    ],
)
def test_a_toolkit_that_is_newer_than_the_driver_is_named(
    joined: bool, step: str, cure: Cure, facts: Facts, record: Record
) -> None:
    record["cuda"]["versions"] = ["12.8", "13.0"]
    record["module"].update(loaded_version=OLD, installed_version=OLD)
    record["kubernetes"]["joined"] = joined
    (problem,) = cuda_toolkits(facts(record, nvidia_driver_version=OLD))
    assert problem.cause == (
        f"Node 'gpu-1' has CUDA '13.0' with driver '{OLD}', which is too old for it; allowed: driver branch 580 or newer."
    )
    assert step in problem.next_step
    assert problem.cure is cure


@pytest.mark.parametrize(
    ("packages", "what"),
    [((), "'/usr/local/cuda-13.0' on"), (("cuda-toolkit-13-0",), "package 'cuda-toolkit-13-0'")],
)
def test_what_nobody_needs_is_named_as_it_came(
    packages: tuple[str, ...], what: str, facts: Facts, record: Record
) -> None:
    record["packages"].update({name: {"version": "13.0.2-1", "held": False} for name in packages})
    record["module"]["loaded_version"] = OLD
    (problem,) = cuda_toolkits(facts(record))
    assert f"If nobody builds with it, take '13.0' out of 'cuda_toolkit_versions', and remove {what}" in (
        problem.next_step
    )


def test_the_driver_that_runs_counts(facts: Facts, record: Record) -> None:
    record["module"]["installed_version"] = OLD
    assert cuda_toolkits(facts(record)) == []
    record["module"]["loaded_version"] = None
    assert len(cuda_toolkits(facts(record))) == 1


@pytest.mark.parametrize(("package", "problems"), [("cuda-compat-13-0", 0), ("cuda-compat-12-8", 1)])
def test_forward_compatibility_is_for_one_release(
    package: str, problems: int, facts: Facts, record: Record
) -> None:
    record["module"]["loaded_version"] = OLD
    record["packages"][package] = {"version": "580.95.05-1", "held": False}
    assert len(cuda_toolkits(facts(record))) == problems


def test_one_that_no_row_knows_is_not_judged(facts: Facts, record: Record) -> None:
    record["cuda"]["versions"] = ["10.2", "13.0"]
    with pytest.raises(
        NotApplicable, match=r"CUDA version: '10\.2', which data/compatibility\.yml does not know"
    ):
        cuda_toolkits(facts(record))
    # What can be judged is.
    record["module"]["loaded_version"] = OLD
    (problem,) = cuda_toolkits(facts(record))
    assert "CUDA '13.0'" in problem.cause


def test_nodes_without_toolkit_or_driver(facts: Facts, record: Record) -> None:
    record["module"].update(loaded_version=None, installed_version=None)
    with pytest.raises(CannotAsk, match=r"see nodes\.driver-versions"):
        cuda_toolkits(facts(record))
    # No driver makes up for that.
    record["pci"]["gpus"][0]["device_id"] = "10de:2901"
    record["cuda"]["versions"] = ["12.4"]
    assert len(cuda_toolkits(facts(record))) == 1
    record["cuda"]["versions"] = []
    with pytest.raises(NotApplicable, match="has no CUDA toolkit"):
        cuda_toolkits(facts(record))
