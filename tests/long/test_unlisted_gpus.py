"""GPUs of a model that is no row of data/gpus.yml: set up with a note, without a baseline, and never counted as compared.

The machine has a simulated RTX PRO 6000 with an invented PCI device ID, which is in the range of its architecture.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusmith.names import STARTUP_TAINT
from tests.e2e.harness import Ended, Lab

NODE, GPUS = "gpu-1", 2
DEVICE = "10de:2bbf"
NAME = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
NO_ROW = "no row of data/gpus.yml: no baseline"
OWN_NAME = "our-rtx"


@pytest.fixture(scope="module")
def unlisted(root: Path) -> Iterator[Lab]:
    lab = Lab(root, root / ".cache" / "long" / str(int(time.time())))
    lab.gpulab("down")
    lab.up("--model", f"rtx-pro-6000@{DEVICE[-4:]}", "--gpu-nodes", "1", "--gpus", str(GPUS))
    yield lab
    lab.gpulab("down")


def said(ended: Ended) -> str:
    """What a run printed, whatever lines it was broken into."""
    return " ".join(ended.output.split())


def declaring(lab: Lab, folder: Path, model: str) -> Path:
    """The lab's inventory, with a GPU model."""
    inventory = lab.copy_inventory(folder)
    path = inventory / "group_vars" / "gpu_nodes.yml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "gpusmith_gpu_model": model}))
    return inventory


def labels(lab: Lab) -> Mapping[str, str]:
    """Of the node."""
    found: Mapping[str, str] = lab.get("node", NODE)["metadata"]["labels"]
    return found


def skipped(results: Mapping[str, Any]) -> dict[str, str]:
    """Checks of the node that do not apply, with the reason."""
    return {
        check["id"]: check["cause"]
        for check in results["checks"]
        if check["target"] == NODE and check["skip"] == "not_applicable"
    }


def test_site_ends_green_with_the_note(unlisted: Lab) -> None:
    assert "0x2bbf" in unlisted.on(NODE, "cat /sys/bus/pci/devices/*/device").split()
    first = unlisted.site()
    assert first.status == 0, str(first)
    # Before the driver is loaded only PCI tells what is there.
    assert f"GPU {DEVICE}: {NO_ROW}" in said(first), str(first)
    assert "chosen by architecture 'blackwell'" in said(first), str(first)
    assert "Open Kernel Module" in unlisted.on(NODE, "cat /proc/driver/nvidia/version")
    unlisted.wait_allocatable({NODE: GPUS}, 120)
    assert "gpu-type" not in labels(unlisted)
    taints = {taint["key"] for taint in unlisted.get("node", NODE)["spec"].get("taints", [])}
    assert STARTUP_TAINT not in taints, "the suite has passed"


def test_a_second_run_changes_nothing_and_says_it_again(unlisted: Lab) -> None:
    second = unlisted.site()
    assert second.status == 0, str(second)
    assert second.recap()[NODE]["changed"] == 0, str(second)
    assert f"{NAME} ({DEVICE}): {NO_ROW}" in said(second), str(second)


def test_the_suite_claims_no_comparison(unlisted: Lab) -> None:
    validation = unlisted.validate()
    validation.assert_passed()
    reasons = skipped(validation.results)
    assert NO_ROW in reasons["nodes.gpu-model"]
    assert NAME in reasons["nodes.gpu-model"]
    assert "no baseline" in reasons["nodes.pcie-width"]


def test_a_name_of_the_sites_own_becomes_the_label(unlisted: Lab, tmp_path: Path) -> None:
    ended = unlisted.site(inventory=declaring(unlisted, tmp_path / "inventory", OWN_NAME))
    assert ended.status == 0, str(ended)
    assert labels(unlisted)["gpu-type"] == OWN_NAME
    # What leaves the inventory leaves the node.
    ended = unlisted.site()
    assert ended.status == 0, str(ended)
    assert "gpu-type" not in labels(unlisted)


def test_a_row_that_the_machine_does_not_show_is_refused(unlisted: Lab, tmp_path: Path) -> None:
    ended = unlisted.site(inventory=declaring(unlisted, tmp_path / "inventory", "rtx-pro-6000"))
    assert ended.status != 0, str(ended)
    assert f"'{DEVICE}' (unknown to data/gpus.yml)" in said(ended), str(ended)
    assert not any(numbers["changed"] for numbers in ended.recap().values()), str(ended)
