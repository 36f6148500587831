"""gpulab: what it writes, what a second `up` does, what a kill leaves."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.e2e.harness import Lab


@pytest.mark.rare
def test_up_after_killed_ups(lab: Lab, keep_lab: bool) -> None:
    if keep_lab:
        pytest.skip("E2E_KEEP_LAB: the lab is not to be killed")
    # Wherever it is by then: any point must do, also that of an `up` that goes on after a kill.
    for seconds in (4, 20):
        process, _ = lab.start(lab.program("gpulab"), "up")
        time.sleep(seconds)
        process.kill()
        process.wait()
    lab.up()
    nodes = lab.status()["nodes"]
    assert {node["name"]: node["state"] for node in nodes} == {
        "cp-1": "running",
        "gpu-1": "running",
        "gpu-2": "running",
    }
    assert lab.status()["complete"]


def test_second_up_changes_nothing(bare_lab: Lab) -> None:
    boots = "cat /proc/sys/kernel/random/boot_id"
    before = {name: bare_lab.on(name, boots) for name in ("cp-1", "gpu-1", "gpu-2")}
    written = {path: path.stat().st_mtime_ns for path in bare_lab.inventory.rglob("*")}
    ended = bare_lab.up()
    assert ended.seconds < 30
    assert {name: bare_lab.on(name, boots) for name in before} == before
    assert {path: path.stat().st_mtime_ns for path in bare_lab.inventory.rglob("*")} == written


def test_secrets_are_private(bare_lab: Lab) -> None:
    for name in ("id_ed25519", "kubeconfig"):
        assert (bare_lab.inventory / name).stat().st_mode & 0o777 == 0o600


def test_wrong_shape_is_refused(bare_lab: Lab) -> None:
    ended = bare_lab.run(bare_lab.program("gpulab"), "up", "--gpus", "8")
    assert ended.status == 2
    assert "'4'" in ended.output
    assert "gpulab down" in ended.output


def test_gpus_are_on_pci_and_nothing_else_is_there(bare_lab: Lab) -> None:
    if bare_lab.get("nodes", "--selector=!node-role.kubernetes.io/control-plane")["items"]:
        pytest.skip("the nodes are not bare any more")
    found = bare_lab.on(
        "gpu-1",
        "lspci -n | grep -c '10de:2330'; command -v nvidia-smi containerd kubelet || true; ls /dev/nvidia* 2>&1 || true",
    )
    assert found.splitlines()[0] == "4"
    assert "/usr/" not in found


def test_machines_cannot_set_the_clock_of_their_host(bare_lab: Lab) -> None:
    # By the capability, since a test that tries would do it if it fails.
    for machine in ("cp-1", "gpu-1"):
        mask = int(bare_lab.on(machine, "sed -n 's/^CapBnd:\\s*//p' /proc/self/status"), 16)
        assert not mask >> 25 & 1, f"'{machine}' has CAP_SYS_TIME: {mask:x}"


def test_inventory_is_found_from_anywhere(bare_lab: Lab, tmp_path: Path) -> None:
    command = [
        bare_lab.program("ansible"),
        "all",
        "-i",
        str(bare_lab.inventory),
        "-m",
        "ansible.builtin.ping",
    ]
    assert bare_lab.ok(*command, cwd=tmp_path).output.count("SUCCESS") == 3


def test_a_machine_killed_with_its_monitor_is_made_anew(bare_lab: Lab, keep_lab: bool) -> None:
    if keep_lab:
        pytest.skip("E2E_KEEP_LAB: the lab is not to be killed")
    bare_lab.kill_machine("gpu-2")
    states = {node["name"]: node["state"] for node in bare_lab.status()["nodes"]}
    assert states == {"cp-1": "running", "gpu-1": "running", "gpu-2": "killed"}
    ended = bare_lab.up()
    assert "'gpu-2' was killed from outside; it is made anew" in ended.output
    assert "Nothing to do" in bare_lab.up().output
