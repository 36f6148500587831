"""GPU models that an inventory adds: what a row must be, and that everybody reads it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusmith.checks import gpus
from gpusmith.checks.findings import NotApplicable
from gpusmith.data import models
from gpusmith.expect import driver_needs
from gpusmith.expect.wanted import driver_of
from gpusmith.inventory.specs import load
from gpusmith.inventory.variables import check_values
from gpusmith.node.records import parse
from gpusmith.upgrade.hosts import Look
from tests.unit.checks.judged import Facts
from tests.unit.hosts import VERSION, make_host
from tests.unit.preflight import test_judge as preflight
from tests.unit.records import Record


@pytest.fixture
def page(root: Path) -> dict[str, Any]:
    """The example of the documentation, to be pasted."""
    blocks = re.findall(r"```yaml\n(.*?)```", (root / "docs/provisioning.md").read_text(), re.DOTALL)
    (found,) = (yaml.safe_load(block) for block in blocks if "gpusmith_gpu_models" in block)
    return dict(found)


def own(record: Record) -> Record:
    for place, gpu in zip(record["pci"]["gpus"], record["nvml"]["gpus"], strict=False):
        place.update(device_id="10de:2230")
        gpu.update(name="NVIDIA RTX A6000", memory_mib=46068)
    return record


def test_preflight_reads_it(page: dict[str, Any]) -> None:
    tree = preflight.facts()
    for place in tree["record"]["pci"]["gpus"]:
        place.update(device_id="10de:2230")
    tree["record"]["pci"]["nvswitches"] = []
    assert preflight.refused(tree, **page) == []
    page["gpusmith_gpu_models"]["rtx-a6000"].update(min_driver_branch=999)
    assert "branch 999 or newer for 'rtx-a6000'" in preflight.only(preflight.refused(tree, **page)).message
    page["gpusmith_gpu_models"]["rtx-a6000"].update(pci_device_id="2231", min_driver_branch=0)
    assert "allowed: '10de:2231' (rtx-a6000)" in preflight.only(preflight.refused(tree, **page)).message


def test_the_suite_reads_it(page: dict[str, Any], facts: Facts, record: Record) -> None:
    own(record)
    with pytest.raises(NotApplicable):
        gpus.gpu_model(facts(record, gpusmith_gpu_model="rtx-a6000"))
    assert gpus.gpu_model(facts(record, **page)) == []
    record["nvml"]["gpus"][1].update(memory_mib=24000)
    (problem,) = gpus.gpu_model(facts(record, **page))
    assert "has 24000 MiB of memory, model 'rtx-a6000' has 46068" in problem.cause


@pytest.mark.parametrize(
    ("declared", "memory_mib"), [("h100-sxm", 81559), ("my-h100", 70000), ("our-h100", 60000), (None, 60000)]
)
def test_of_rows_with_one_pci_id_the_declared_one_is_the_gpus(
    declared: str | None, memory_mib: int, facts: Facts, record: Record
) -> None:
    row = {"name": "NVIDIA H100 80GB HBM3", "pci_device_id": "10de:2330", "architecture": "hopper"}
    rows = {"my-h100": {**row, "memory_mib": 70000}, "our-h100": {**row, "memory_mib": 60000}}
    given = {"gpusmith_gpu_model": declared, "gpusmith_gpu_models": rows}
    tree = preflight.facts()
    tree["record"]["pci"]["nvswitches"] = []
    assert [row for row in preflight.refused(tree, **given) if "GPU model" in row.message] == []
    for gpu in record["nvml"]["gpus"]:
        gpu.update(memory_mib=memory_mib)
    assert gpus.gpu_model(facts(record, **given)) == []
    record["nvml"]["gpus"][1].update(memory_mib=24000)
    (problem,) = gpus.gpu_model(facts(record, **given))
    assert f"model '{declared or 'our-h100'}' has {memory_mib}" in problem.cause


@pytest.mark.parametrize(
    ("architecture", "row", "kind"),
    [
        ("ampere", {}, "open"),
        ("pascal", {}, "proprietary"),
        ("ampere", {"open_module": "unsupported"}, "proprietary"),
    ],
)
def test_roles_and_upgrades_choose_the_kernel_module_by_it(
    architecture: str, row: dict[str, str], kind: str, page: dict[str, Any], record: Record
) -> None:
    page["gpusmith_gpu_models"]["rtx-a6000"].update(architecture=architecture, **row)
    host, seen = make_host(**page), parse(own(record))
    for driver in (driver_of(host), Look("gpu-1", None, VERSION, wanted=host).driver):
        assert driver_needs.flavour(seen, driver) == kind


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, None),
        ({"pci_device_id": "0x2230", "min_driver_branch": None, "sources": ["nvidia"]}, None),
        ({"pci_device_id": 2321}, "rtx-a6000.pci_device_id' must be a PCI device id in quotes"),
        ({"memory_mib": "48 GB"}, "must be a whole number from 1: MiB"),
        ({"memory_mib": None}, "has no 'memory_mib'"),
        ({"architecture": "amper"}, "must be one of 'kepler'"),
        ({"memory_mb": 1}, "has no key 'memory_mb'"),
        ({"fabric_manager": "no"}, "must be true or false"),
        ({"mig_table": "a40"}, "must be a table of data/mig.yml"),
    ],
)
def test_a_row_that_cannot_be_read_is_named(
    change: dict[str, Any], says: str | None, page: dict[str, Any]
) -> None:
    page["gpusmith_gpu_models"]["rtx-a6000"].update(change)
    found = [refusal.message for refusal in check_values(page, load())]
    assert len(found) == (says is not None), found
    assert says is None or says in found[0]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ({"h100-sxm": {}}, "which is a row of data/gpus.yml"),
        ({"RTX A6000": {}}, "a mapping whose keys are"),
        ({"rtx": ["a"]}, "must be a mapping with 'name'"),
    ],
)
def test_names_are_labels_and_none_of_the_file(rows: dict[str, Any], says: str) -> None:
    (refusal,) = check_values({"gpusmith_gpu_models": rows}, load())
    assert says in refusal.message


def test_every_row_of_the_file_would_be_taken_under_another_name(root: Path) -> None:
    rows = yaml.safe_load((root / "data/gpus.yml").read_text())["models"]
    site = {f"our-{key}": row for key, row in rows.items()}
    assert check_values({"gpusmith_gpu_models": site}, load()) == []
    assert models.joined({}, site)["our-t4"].memory_mib == models.load()["t4"].memory_mib
