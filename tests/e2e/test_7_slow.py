"""Machines that take their time, as large ones do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.harness import Lab

FABRIC_MANAGER = "nvidia-fabricmanager.service"


@pytest.fixture
def slow_lab(ready_lab: Lab) -> Iterator[Lab]:
    """A lab whose delays end with the test."""
    yield ready_lab
    ready_lab.gpulab("delay", "gpu-1", "--boot", "0", "--module-load", "0", "--fabric", "1")
    ready_lab.on("gpu-1", f"systemctl restart {FABRIC_MANAGER}")
    ready_lab.site_ok()


def test_gpus_of_a_slow_machine_come_back(slow_lab: Lab) -> None:
    before = {name: boot for name, boot in slow_lab.boots().items() if name == "gpu-1"}
    slow_lab.gpulab("delay", "gpu-1", "--boot", "5", "--module-load", "5", "--fabric", "10")
    slow_lab.gpulab("reboot", "gpu-1")
    slow_lab.wait_allocatable({"gpu-1": 4, "gpu-2": 4}, 180, rebooted_since=before)
    slow_lab.validate_nodes("--limit", "gpu-1").assert_passed()


def test_a_missed_deadline_says_what_was_waited_for(slow_lab: Lab, spoilt: Path) -> None:
    values = spoilt / "group_vars" / "gpu_nodes.yml"
    values.write_text(re.sub(r"(nvidia_driver_ready_timeout_s): \d+", r"\1: 10", values.read_text()))
    slow_lab.gpulab("delay", "gpu-1", "--fabric", "600")
    slow_lab.on("gpu-1", f"systemctl restart {FABRIC_MANAGER}")
    ended = slow_lab.site(inventory=spoilt)
    assert ended.status != 0
    assert re.search(
        r"The driver of 'gpu-1' is not as wanted: GPU 0 .*fabric is in_progress", ended.output
    ), str(ended)
    recap = ended.recap()
    assert (recap["gpu-1"]["failed"], recap["gpu-2"]["failed"]) == (1, 0), "one bad node stops itself only"
