"""The driver, as the suite sees it."""

from __future__ import annotations

import pytest

from gpusmith.checks.driver import driver_versions, next_boot
from gpusmith.checks.evidence import kernel_evidence
from gpusmith.checks.findings import CannotAsk
from gpusmith.expect.steps import change_driver, upgrade_driver
from gpusmith.node.facts import NodeFacts
from gpusmith.node.records import parse
from gpusmith.problems import Cure, Problem
from tests.faults.fault import Record
from tests.unit.checks.judged import Facts, failing
from tests.unit.hosts import VERSION, make_host


def test_a_library_that_is_nowhere_is_missing(facts: Facts, record: Record) -> None:
    record["library"].update(cuda_version=None)
    record["library"]["files"]["cuda"]["path"] = None
    assert "the CUDA library is missing" in failing(facts(record))["nodes.driver-versions"]


def test_real_inventory_with_simulated_library_fails(facts: Facts, record: Record) -> None:
    found = failing(facts(record, gpusmith_simulated=False))
    assert "the inventory says its GPUs are real" in found["nodes.simulation-witnesses"]


OLD = "515.43.04"


def of_gpus(facts: NodeFacts) -> list[Problem]:
    """What is wrong with the driver for these GPUs."""
    return [problem for problem in driver_versions(facts) if "does not support its GPUs" in problem.cause]


@pytest.mark.parametrize("loaded", [OLD, None])
def test_a_driver_that_is_too_old_for_the_gpus_is_named(
    loaded: str | None, facts: Facts, record: Record
) -> None:
    record["module"].update(loaded_version=loaded, installed_version=OLD)
    (problem,) = of_gpus(facts(record))
    assert problem.cause == (
        f"Node 'gpu-1': driver '{OLD}' does not support its GPUs; allowed: branch 525 or newer for 'h100-sxm' (hopper)."
    )
    assert upgrade_driver("gpu-1", VERSION) in problem.next_step


@pytest.mark.parametrize("joined", [True, False])
def test_an_inventory_that_wants_such_a_driver_is_to_be_corrected_first(
    joined: bool, facts: Facts, record: Record
) -> None:
    record["module"].update(loaded_version=OLD, installed_version=OLD)
    record["kubernetes"]["joined"] = joined
    (problem,) = of_gpus(facts(record, nvidia_driver_version=OLD))
    assert "Set 'nvidia_driver_version' to such a version" in problem.next_step
    assert (change_driver("gpu-1") in problem.next_step, problem.cure is Cure.UPGRADE) == (joined, joined)


def test_each_kind_of_gpu_that_is_there_counts(facts: Facts, record: Record) -> None:
    record["module"].update(loaded_version="550.163.01", installed_version="550.163.01")
    assert of_gpus(facts(record)) == []
    record["pci"]["gpus"][1]["device_id"] = "10de:2901"
    (problem,) = of_gpus(facts(record))
    assert "branch 570 or newer for 'b200' (blackwell)" in problem.cause


def test_signatures_cannot_be_judged_without_the_sites_certificate(record: Record) -> None:
    signing = {"key": "/k", "certificate": "/nowhere/modules.der"}
    host = make_host(nvidia_driver_build="once_per_kernel", nvidia_driver_build_signing=signing)
    record["system"]["secure_boot"] = True
    with pytest.raises(CannotAsk, match=r"'/nowhere/modules.der' cannot be read"):
        next_boot(NodeFacts(host, parse(record), None, {}, {}))


def test_a_module_that_cannot_be_read_is_no_proof_for_the_next_boot(facts: Facts, record: Record) -> None:
    """As DKMS leaves it when the disk is full, or the power fails."""
    path = "/lib/modules/6.1.1/updates/dkms/nvidia.ko"
    record["kernels"].append({"release": "6.1.1", "image": "i", "module": path, "module_version": VERSION})
    assert next_boot(facts(record)) == []
    record["kernels"][-1]["module_version"] = None
    with pytest.raises(CannotAsk, match=path):
        next_boot(facts(record))


OFF, NVIDIA = "/etc/modprobe.d/off.conf", "/usr/lib/modprobe.d/nvidia.conf"


@pytest.mark.parametrize(
    ("name", "bars", "says", "step"),
    [
        ("nvidia", {"install": OFF}, "keeps module 'nvidia' from being loaded: the next boot has no GPUs", "take it out"),
        ("nvidia_uvm", {"install": OFF}, "'nvidia_uvm' from being loaded: the next boot runs no CUDA program", "'install' into"),
        # Where NVIDIA's packages name soft dependencies, modprobe loads it all the same.
        ("nvidia", {"install": OFF, "softdep": NVIDIA}, f"only the line with 'softdep' in '{NVIDIA}', which", OFF),
        ("nvidia", {"refused": "/proc/cmdline"}, "'module_blacklist' in '/proc/cmdline' has the kernel refuse", "boot loader"),
    ],
)  # fmt: skip
def test_what_keeps_boots_from_loading_the_driver_is_found(
    facts: Facts, record: Record, name: str, bars: dict[str, str], says: str, step: str
) -> None:
    record["boot"]["driver"] = {"nvidia_modeset": {"softdep": NVIDIA}, name: bars}
    (problem,) = next_boot(facts(record))
    assert says in problem.cause
    assert step in problem.next_step


def test_a_blacklist_is_no_fault_and_is_named(facts: Facts, record: Record) -> None:
    """The driver's units load the modules by name."""
    record["boot"]["driver"] = {"nvidia": {"blacklist": OFF}}
    assert next_boot(facts(record)) == []
    (note,) = kernel_evidence(facts(record))["notes"]
    assert note.startswith(f"'{OFF}' blacklists module 'nvidia': boots load it by its name")
