from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from gpulab.machines import Machinery, known_hosts, planned
from gpulab.podman import KILLED
from gpulab.processes import process_start
from gpulab.state import Places, Shape

from tests.unit.lab.test_machines import NODE

if TYPE_CHECKING:
    from tests.unit.lab.conftest import FakePodman


def test_known_hosts_names_address_and_machine_with_stable_keys(places: Places) -> None:
    first = known_hosts([NODE], places)
    assert first.startswith("10.77.0.21,gpu-1 ssh-ed25519 ")
    assert known_hosts([NODE], places) == first


def test_a_machine_is_made_once(machinery: Machinery, podman: FakePodman, places: Places) -> None:
    machine = planned(Shape(), places)[1]
    assert machinery.ensure(machine, "image")
    podman.calls.clear()
    assert not machinery.ensure(machine, "image")
    assert podman.verbs() == []


def test_a_stopped_machine_is_started_not_remade(
    machinery: Machinery, podman: FakePodman, places: Places
) -> None:
    machine = planned(Shape(), places)[1]
    machinery.ensure(machine, "image")
    podman.containers[machine.container]["State"]["Status"] = "exited"
    podman.calls.clear()
    assert machinery.ensure(machine, "image")
    assert podman.verbs() == ["start"]


def killed_with_its_monitor(podman: FakePodman, container: str) -> None:
    """Podman goes on to call such a container running."""
    podman.containers[container]["State"] = {"Status": "running", "Pid": 2**22 + 1}


def test_a_machine_killed_with_its_monitor_is_made_anew(
    machinery: Machinery, podman: FakePodman, places: Places
) -> None:
    machine = planned(Shape(), places)[1]
    machinery.ensure(machine, "image")
    killed_with_its_monitor(podman, machine.container)
    assert machinery.state(machine) == KILLED
    assert podman.running() == set()
    assert machinery.ensure(machine, "image")
    assert podman.running() == {machine.container}


def test_a_machine_killed_with_its_monitor_is_removed(
    machinery: Machinery, podman: FakePodman, places: Places
) -> None:
    machine = planned(Shape(), places)[1]
    machinery.ensure(machine, "image")
    killed_with_its_monitor(podman, machine.container)
    machinery.remove(machine)
    assert podman.containers == {}


def test_a_zombie_does_not_run() -> None:
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert Path(f"/proc/{child.pid}").exists()
    assert process_start(child.pid) == ""
    child.wait()


def test_what_a_kill_left_half_made_is_made_anew(
    machinery: Machinery, podman: FakePodman, places: Places
) -> None:
    machine = planned(Shape(), places)[1]
    podman.containers[machine.container] = {"Id": "half", "State": {"Status": "running", "Pid": os.getpid()}}
    assert machinery.ensure(machine, "image")
    assert podman.verbs() == ["rm", "volume", "volume", "create", "cp", "start"]


def test_what_a_killed_removal_left_is_not_the_new_machines_disk(
    machinery: Machinery, podman: FakePodman, places: Places
) -> None:
    machine = planned(Shape(), places)[1]
    folder = podman.volume(machine.volume)
    (folder / "lib" / "half").mkdir(parents=True)
    (folder / "run").symlink_to(places.root)
    (folder / "file").touch()
    places.root.mkdir(parents=True, exist_ok=True)
    machinery.ensure(machine, "image")
    assert list(folder.iterdir()) == []
    assert places.root.is_dir()


def test_a_new_machine_has_no_faults(machinery: Machinery, places: Places) -> None:
    machine = planned(Shape(), places)[1]
    folder = machine.mounts[0][0]
    folder.mkdir(parents=True)
    (folder / "hardware.json").write_text("{}")
    (folder / "faults.json").write_text("{}")
    machinery.ensure(machine, "image")
    assert sorted(path.name for path in folder.iterdir()) == ["delays.json", "hardware.json"]
