"""After a reboot, GPUs come back by themselves."""

from __future__ import annotations

import pytest

from tests.e2e.harness import Lab


@pytest.mark.parametrize("which", ["gpu-1", "--all"])
def test_gpus_come_back(ready_lab: Lab, which: str) -> None:
    before = {name: boot for name, boot in ready_lab.boots().items() if which in (name, "--all")}
    ready_lab.gpulab("reboot", which)
    ready_lab.wait_allocatable({"gpu-1": 4, "gpu-2": 4}, 180, rebooted_since=before)
    ready_lab.validate_nodes().assert_passed()
    for name in before:
        if name != "cp-1":
            # Ordered after the runtime and the driver, it never has to be started anew.
            assert "NRestarts=0" in ready_lab.on(name, "systemctl show kubelet --property=NRestarts")


def test_a_reboot_makes_no_stamp_stale(ready_lab: Lab) -> None:
    ended = ready_lab.site_ok()
    assert {
        host: numbers["changed"] for host, numbers in ended.recap().items() if numbers["changed"]
    } == {}, str(ended)
