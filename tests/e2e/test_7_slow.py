"""A machine that takes more time than it was given. Slow boots are in test_6_faults."""

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
    ready_lab.gpulab("delay", "gpu-1", "--fabric", "1")
    ready_lab.on("gpu-1", f"systemctl restart {FABRIC_MANAGER}")
    ready_lab.site_ok()


@pytest.mark.rare
def test_a_missed_deadline_says_what_was_waited_for(slow_lab: Lab, spoilt: Path) -> None:
    values = spoilt / "group_vars" / "gpu_nodes.yml"
    values.write_text(re.sub(r"(nvidia_driver_ready_timeout_s): \d+", r"\1: 10", values.read_text()))
    slow_lab.gpulab("delay", "gpu-1", "--fabric", "600")
    slow_lab.on("gpu-1", f"systemctl restart {FABRIC_MANAGER}")
    ended = slow_lab.site(inventory=spoilt)
    assert ended.status != 0
    assert re.search(
        r"The driver of 'gpu-1' is not as wanted: GPU 0 .*has not joined the NVLink fabric: in_progress",
        ended.output,
    ), str(ended)
    recap = ended.recap()
    assert (recap["gpu-1"]["failed"], recap["gpu-2"]["failed"]) == (1, 0), "one bad node stops itself only"
