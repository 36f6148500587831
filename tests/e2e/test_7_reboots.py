"""After a reboot of everything, GPUs come back by themselves."""

from __future__ import annotations

from tests.e2e.alerts import Prometheus
from tests.e2e.harness import Lab


def test_gpus_come_back(ready_lab: Lab) -> None:
    before = ready_lab.boots()
    with Prometheus(ready_lab).no_alarm():
        ready_lab.gpulab("reboot", "--all")
        ready_lab.wait_allocatable({"gpu-1": 4, "gpu-2": 4}, 180, rebooted_since=before)
        ready_lab.validate_nodes().assert_passed()
    for name in ("gpu-1", "gpu-2"):
        # Ordered after the runtime and the driver, it never has to be started anew.
        assert "NRestarts=0" in ready_lab.on(name, "systemctl show kubelet --property=NRestarts")


def test_a_reboot_makes_no_stamp_stale(ready_lab: Lab) -> None:
    ended = ready_lab.site_ok()
    assert {
        host: numbers["changed"] for host, numbers in ended.recap().items() if numbers["changed"]
    } == {}, str(ended)
