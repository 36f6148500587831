"""An upgrade of nodes of several sizes, with a budget that the largest one needs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.e2e.harness import Lab
from tests.e2e.upgrades import NEW, Eyes, Watch, offering_broken_drivers, start, upgrade_words

GPUS = {"gpu-1": 8, "gpu-2": 4, "gpu-3": 1}
LARGEST = max(GPUS.values())


def test_nodes_of_several_sizes_stay_within_the_budget(
    no_lab: Lab, tmp_path: Path, measured: Callable[[str, object], None]
) -> None:
    no_lab.up("--gpu-nodes", str(len(GPUS)), "--gpus", ",".join(map(str, GPUS.values())))
    no_lab.site_ok()
    no_lab.wait_allocatable(GPUS, 60)
    eyes = Eyes(no_lab.inventory / "kubeconfig")
    inventory = offering_broken_drivers(no_lab, tmp_path / "inventory")
    small = start(no_lab, inventory, *upgrade_words("gpu_nodes", NEW, *budget(LARGEST - 1))).ended()
    assert small.status != 0, str(small)
    assert "gpu-1 |" in small.output, str(small)
    with Watch(eyes, GPUS, LARGEST).on():
        ended = start(no_lab, inventory, *upgrade_words("gpu_nodes", NEW, *budget(LARGEST))).ended()
    assert ended.status == 0, str(ended)
    assert {node: no_lab.on(node, "cat /sys/module/nvidia/version") for node in GPUS} == dict.fromkeys(
        GPUS, NEW
    )
    no_lab.wait_allocatable(GPUS, 60)
    measured("nodes with 8, 4 and 1 GPUs, at most 8 out", f"{ended.seconds:.0f} s")


def budget(gpus: int) -> tuple[str, str]:
    """Words for how many GPUs may be out."""
    return ("-e", f"gpu_upgrade_max_unavailable={gpus}")
