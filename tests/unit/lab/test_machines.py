from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from gpulab.hosts import Host
from gpulab.lab import Lab
from gpulab.machines import Machine, Machinery, create_arguments, find, identity_archive, planned
from gpulab.state import Places, Shape

from gpusmith.errors import InputError, ToolError
from gpusmith.wait import NotYet

if TYPE_CHECKING:
    from tests.unit.lab.conftest import FakePodman

NODE = Machine("gpu-1", "gpu", "10.77.0.21", mounts=((Path("/state/simgpu"), "/var/lib/simgpu", "rw"),))


def test_names_roles_and_addresses(places: Places) -> None:
    machines = planned(Shape(gpu_nodes=2, cpu_nodes=1), places)
    assert [(machine.name, machine.role, machine.address) for machine in machines] == [
        ("cp-1", "control-plane", "10.77.0.10"),
        ("gpu-1", "gpu", "10.77.0.21"),
        ("gpu-2", "gpu", "10.77.0.22"),
        ("cpu-1", "cpu", "10.77.0.121"),
    ]


def test_only_gpu_machines_get_hardware_and_all_share_a_folder(places: Places) -> None:
    machines = planned(Shape(gpu_nodes=1, cpu_nodes=1), places)
    at = {machine.name: [path for _, path, _ in machine.mounts] for machine in machines}
    assert at == {
        "cp-1": ["/srv/shared"],
        "gpu-1": ["/var/lib/simgpu", "/srv/shared"],
        "cpu-1": ["/srv/shared"],
    }


def test_the_last_number_of_gpus_is_that_of_all_further_machines(places: Places) -> None:
    machines = planned(Shape(gpu_nodes=4, gpus=(8, 4, 1), cpu_nodes=1), places)
    assert [machine.gpus for machine in machines] == [0, 8, 4, 1, 1, 0]


def test_addresses_follow_the_subnet(places: Places) -> None:
    assert planned(Shape(subnet="192.168.99.0/24"), places)[1].address == "192.168.99.21"


@pytest.mark.parametrize(
    ("shape", "option"),
    [
        (Shape(gpu_nodes=-1), "--gpu-nodes"),
        (Shape(gpus=(0,)), "--gpus"),
        (Shape(gpus=(4, 9)), "--gpus"),
        (Shape(gpus=(8, 4, 1)), "--gpus"),
        (Shape(cpu_nodes=91), "--cpu-nodes"),
    ],
)
def test_impossible_counts_are_refused_by_name(places: Places, shape: Shape, option: str) -> None:
    with pytest.raises(InputError, match=option):
        planned(shape, places)


def test_unknown_machine_lists_the_known_ones(places: Places) -> None:
    with pytest.raises(InputError, match=r"no machine 'gpu-7'.*'cp-1', 'gpu-1'"):
        find(planned(Shape(gpu_nodes=1), places), "gpu-7")


@pytest.fixture
def limits(tmp_path: Path) -> Path:
    """The kernel's limits on a stock Debian."""
    folder = tmp_path / "fs" / "inotify"
    folder.mkdir(parents=True)
    (folder / "max_user_instances").write_text("128\n")
    (folder / "max_user_watches").write_text("1048576\n")
    return folder


def test_low_limits_of_the_host_are_raised_and_named(
    limits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Host(cgroup_version=2).raise_limits(10, tmp_path)
    assert (limits / "max_user_instances").read_text() == "8192\n"
    assert (limits / "max_user_watches").read_text() == "1048576\n"
    assert "'fs.inotify.max_user_instances' of this host from 128 to 8192" in capsys.readouterr().err
    Host(cgroup_version=2).raise_limits(10, tmp_path)
    assert capsys.readouterr().err == ""


def test_limits_that_cannot_be_raised_are_refused_with_the_command(
    limits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(path: Path, text: str) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "write_text", read_only)
    Host(cgroup_version=2).raise_limits(2, tmp_path)
    with pytest.raises(ToolError, match="6 nodes need 184") as raised:
        Host(cgroup_version=2).raise_limits(6, tmp_path)
    assert "'sysctl -w fs.inotify.max_user_instances=8192'" in raised.value.hint


@pytest.mark.parametrize(("version", "left"), [(1, "THAWED"), (2, "FROZEN\n")])
def test_frozen_containers_do_not_keep_a_machine_from_going_down(
    tmp_path: Path, version: int, left: str
) -> None:
    state = tmp_path / "freezer" / "libpod-1" / "kubepods.slice" / "freezer.state"
    others = tmp_path / "freezer" / "libpod-2" / "freezer.state"
    for path in (state, others):
        path.parent.mkdir(parents=True)
        path.write_text("FROZEN\n")
    Host(cgroup_version=version).thaw("/libpod-1", tmp_path)
    assert (state.read_text(), others.read_text()) == (left, "FROZEN\n")
    for nothing in ("/libpod-gone", "/", ""):
        Host(cgroup_version=version).thaw(nothing, tmp_path)
    assert others.read_text() == "FROZEN\n"


def test_a_machine_that_stops_between_two_looks_is_rebooting(
    machinery: Machinery, podman: FakePodman, monkeypatch: pytest.MonkeyPatch
) -> None:
    up = {"State": {"Pid": 7, "StartedAt": "now", "Status": "running", "CgroupPath": "/libpod-1"}}
    seen = iter([up, {"State": {"Pid": 0, "StartedAt": "now", "Status": "exited"}}])
    monkeypatch.setattr(type(podman), "inspect", lambda *_: next(seen))
    monkeypatch.setattr(type(machinery), "state", lambda *_: "stopped")
    assert machinery._rebooted(NODE, "7 now") == NotYet("stopped, the same boot")


def test_command_line_of_a_machine() -> None:
    words = create_arguments(NODE, "image:1", Host(cgroup_version=1))
    text = " ".join(words)
    assert words[0] == "create"
    assert words[-2:] == ["image:1", "/usr/lib/simgpu/init"]
    for part in (
        "--restart=always",
        "--name gpulab-gpu-1 --hostname gpu-1 --label io.gpusmith.lab=default",
        "--network gpulab --ip 10.77.0.21",
        "--privileged",
        "--cgroupns=private --systemd=false --ulimit nofile=20000:20000 --ulimit nproc=8000:8000",
        "--tmpfs /run:rw,exec --tmpfs /run/lock --tmpfs /tmp",
        "--stop-signal SIGRTMIN+3",
        "--volume gpulab-gpu-1-var:/var",
        "--volume /state/simgpu:/var/lib/simgpu:rw",
    ):
        assert part in text


def test_a_host_whose_machines_cannot_be_kept_apart_is_refused(places: Places, podman: FakePodman) -> None:
    lab = Lab(places, Machinery(podman, places, Host(cgroup_version=1, hybrid=False)))
    with pytest.raises(ToolError, match=r"without a unified tree.*mount -t cgroup2"):
        lab.up(Shape())
    assert podman.calls == []
    for host in (Host(cgroup_version=1), Host(cgroup_version=2, hybrid=False)):
        host.must_serve()


@pytest.mark.parametrize(
    ("files", "version", "hybrid"),
    [(["unified/cgroup.procs"], 1, True), ([], 1, False), (["cgroup.controllers"], 2, False)],
)
def test_cgroups_of_the_host(tmp_path: Path, files: list[str], version: int, hybrid: bool) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    host = Host.this(tmp_path)
    assert (host.cgroup_version, host.hybrid) == (version, hybrid)


def test_identity_has_keys_with_their_modes() -> None:
    archive = tarfile.open(fileobj=io.BytesIO(identity_archive(NODE, "client", "private", "public")))  # noqa: SIM115
    modes = {entry.name: entry.mode for entry in archive.getmembers()}
    assert modes["etc/ssh/ssh_host_ed25519_key"] == 0o600
    assert modes["root/.ssh"] == 0o700
    assert modes["root/.ssh/authorized_keys"] == 0o600
    assert archive.getmember("etc/systemd/system/getty@tty1.service").linkname == "/dev/null"
    hosts = archive.extractfile("etc/hosts")
    assert hosts is not None
    assert b"10.77.0.21\tgpu-1\n" in hosts.read()


def test_what_cannot_be_removed_is_an_error(podman: FakePodman, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(podman), "_rm", lambda *_: 125)
    with pytest.raises(ToolError):
        podman.remove("gpulab-gpu-1")
