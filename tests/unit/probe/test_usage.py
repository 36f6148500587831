"""Who uses the driver, by trees as /proc and /sys have them. /dev/zero and its kin stand for the driver's devices."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gpusmith.probe import usage
from gpusmith.probe.child import Child
from gpusmith.probe.usage import Holder, Module, Usage

POD = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
CONTAINER = "0123456789abcdef" * 4
# The major of /dev/null and /dev/zero is given to the driver here; /dev/tty has another.
DEVICES = "Character devices:\n  1 nvidia\n  5 /dev/tty\n  9 nvidia-uvm\n\nBlock devices:\n  5 nvidia\n"
MAP = "7f00{0}000-7f00{0}fff rw-s 00000000 00:05 {0} {1}\n"


class Tree:
    """A machine's /proc and /sys."""

    def __init__(self, root: Path) -> None:
        self.proc, self.sys = root / "proc", root / "sys"
        (self.sys / "module").mkdir(parents=True)
        self.proc.mkdir()
        (self.proc / "devices").write_text(DEVICES)
        (self.proc / "uptime").touch()

    def process(
        self,
        pid: int,
        *files: str,
        cgroup: str = "0::/system.slice/sshd.service\n",
        maps: str = "",
        command: str = "",
        uid: int = 0,
    ) -> Path:
        folder = self.proc / str(pid)
        (folder / "fd").mkdir(parents=True)
        for place, target in enumerate(files):
            (folder / "fd" / str(place)).symlink_to(target)
        (folder / "cgroup").write_text(cgroup)
        (folder / "maps").write_text(maps)
        (folder / "cmdline").write_text(command)
        (folder / "comm").write_text("comm\n")
        (folder / "status").write_text(f"Name:\tcomm\nUid:\t7\t{uid}\t7\t7\n")
        return folder

    def module(self, name: str, references: int = 0, *users: str, builtin: bool = False) -> None:
        folder = self.sys / "module" / name
        (folder / "holders").mkdir(parents=True)
        for user in users:
            (folder / "holders" / user).symlink_to(f"../../{user}")
        if not builtin:
            (folder / "refcnt").write_text(f"{references}\n")
            (folder / "initstate").write_text("live\n")

    def look(self) -> usage.Usage:
        return usage.gather(str(self.proc), str(self.sys))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_a_process_with_an_open_device_is_named_with_all_that_finds_it(tree: Tree) -> None:
    tree.process(1, "/dev/tty", "socket:[1]")
    tree.process(40, "/dev/zero", "/dev/null", "/dev/zero", command="python3\0train.py\0--token=secret\0")
    found = tree.look()
    assert found.holders == (
        Holder(40, "root", "python3 train.py", ("/dev/null", "/dev/zero"), unit="sshd.service"),
    )
    assert found.unreadable == ()
    assert found.holders[0].words == (
        "process 40 'python3 train.py' (user 'root', unit 'sshd.service') with /dev/null, /dev/zero"
    )
    assert "secret" not in str(found)


def test_who_has_a_gpu_open_for_a_while_is_told_with_owner_and_start(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dev").mkdir()
    for name in ("nvidia3", "nvidiactl", "nvidia-uvm"):
        (tmp_path / "dev" / name).symlink_to("/dev/zero")
    gpu, control = str(tmp_path / "dev/nvidia3"), str(tmp_path / "dev/nvidiactl")
    ticks = os.sysconf("SC_CLK_TCK")
    monkeypatch.setattr(time, "time", lambda: 1700000100.0)
    monkeypatch.setattr(time, "clock_gettime", lambda _clock: 100.0)
    for pid, files, age in (
        (40, [gpu, control], 100),
        (41, [control], 100),
        (42, [gpu], 1),
        (43, [gpu], None),
    ):
        folder = tree.process(pid, *files)
        if age is not None:  # else it has ended since
            fields = " ".join(["S", *["0"] * 18, str((100 - age) * ticks), "0"])
            (folder / "stat").write_text(f"{pid} (a) b) {fields}\n")
    # Who hangs in the driver lets nobody read these.
    for name in ("maps", "cmdline"):
        (tree.proc / "40" / name).unlink()
        os.mkfifo(tree.proc / "40" / name)
    errors: list[str] = []
    found = usage.of_gpus(usage.ask(str(tree.proc), str(tree.sys)), errors)
    assert found == (
        Holder(40, "root", "comm", (gpu, control), unit="sshd.service", started_unix=1700000000.0),
    )
    assert (found[0].minors, errors) == ((3,), [])


def test_that_nobody_knows_who_has_a_gpu_open_is_told() -> None:
    errors: list[str] = []
    assert usage.of_gpus(usage.ask("/nowhere/proc/that", "/nowhere"), errors) == ()

    def broken() -> tuple[Holder, ...]:
        raise OSError("no /proc")

    assert usage.of_gpus(Child(broken), errors) is None
    assert errors == ["who has a GPU open: OSError: no /proc"]


def test_a_device_of_another_mount_namespace_is_known_by_its_number(tree: Tree, tmp_path: Path) -> None:
    inside, elsewhere = tmp_path / "root/dev", tmp_path / "root/data"
    for folder in (inside, elsewhere):
        folder.mkdir(parents=True)
        (folder / "nvidia0").symlink_to("/dev/zero")
    (inside / "nvidia-notes").write_text("a file")
    tree.process(40, str(inside / "nvidia0"))
    tree.process(41, str(inside / "nvidia-notes"))
    # Could lie on a server that does not answer; it is not touched.
    tree.process(42, str(elsewhere / "nvidia0"))
    assert [holder.pid for holder in tree.look().holders] == [40]


def test_a_mapping_counts_without_an_open_file(tree: Tree) -> None:
    tree.process(40, maps=MAP.format(1, "/usr/lib/libc.so.6") + MAP.format(2, "/dev/nvidia-uvm"))
    tree.process(41, maps=MAP.format(1, "/home/joe/dev/nvidia-notes"))
    inside = tree.process(42, maps=MAP.format(3, "/host/dev/nvidia0") + MAP.format(4, "/dev/zero (deleted)"))
    (inside / "map_files").mkdir()
    (inside / "map_files" / "7f003000-7f003fff").symlink_to("/dev/zero")
    (inside / "map_files" / "7f004000-7f004fff").symlink_to("/dev/zero")
    named = tree.process(43, maps=MAP.format(3, "/dev/nvidia-notes"))
    (named / "map_files").mkdir()
    (named / "map_files" / "7f003000-7f003fff").symlink_to("/dev/tty")
    found = {holder.pid: holder.devices for holder in tree.look().holders}
    assert found == {40: ("/dev/nvidia-uvm",), 42: ("/dev/zero (deleted)", "/host/dev/nvidia0")}


@pytest.mark.parametrize(
    ("cgroup", "unit", "pod", "container"),
    [
        ("0::/system.slice/nvidia-persistenced.service", "nvidia-persistenced.service", None, None),
        ("0::/user.slice/user-7.slice/user@7.service/app.slice/x.scope", "user@7.service", None, None),
        ("2:cpu:/a.service\n1:name=systemd:/user.slice/session-3.scope\n0::/", "session-3.scope", None, None),
        (f"0::/system.slice/docker-{CONTAINER}.scope", f"docker-{CONTAINER}.scope", None, CONTAINER),
        (
            f"0::/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/cri-containerd-{CONTAINER}.scope",
            None,
            POD,
            CONTAINER,
        ),
        (f"12:devices:/kubepods/besteffort/pod{POD}/{CONTAINER}", None, POD, CONTAINER),
        ("0::/", None, None, None),
    ],
)
def test_unit_pod_and_container_are_those_of_the_cgroup(
    tree: Tree, cgroup: str, unit: str | None, pod: str | None, container: str | None
) -> None:
    tree.process(40, "/dev/zero", cgroup=cgroup, uid=4_000_000_000)
    (holder,) = tree.look().holders
    assert (holder.unit, holder.pod_uid, holder.container) == (unit, pod, container)
    assert (holder.user, holder.command) == ("4000000000", "comm")


def test_screens_count_only_if_nvidia_drives_them(tree: Tree) -> None:
    (tree.proc / "devices").write_text("Character devices:\n  1 drm\n195 nvidia\n")
    tree.process(40, "/dev/null", "/dev/zero")
    for minor, driver in ((3, "ast"), (5, "nvidia")):
        device = tree.sys / f"dev/char/1:{minor}/device"
        device.mkdir(parents=True)
        (tree.sys / driver).mkdir()
        (device / "driver").symlink_to(tree.sys / driver)
    assert [holder.devices for holder in tree.look().holders] == [("/dev/zero",)]


def test_processes_that_vanish_or_cannot_be_read_do_not_hide_the_others(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pid in (40, 41, 42, 43):
        tree.process(pid, "/dev/zero")
    listdir: Callable[[str], list[str]] = os.listdir

    def listed(path: str) -> list[str]:
        if path.endswith("/40/fd"):
            raise FileNotFoundError(path)
        if path.endswith("/41/fd"):
            raise PermissionError(path)
        if path.endswith("/42/fd"):
            raise ProcessLookupError(path)
        return listdir(path)

    monkeypatch.setattr(os, "listdir", listed)
    (tree.proc / "43" / "fd" / "9").symlink_to("/dev/gone")
    found = tree.look()
    assert ([holder.pid for holder in found.holders], found.unreadable) == ([43], (41,))


def test_a_process_that_hangs_in_the_driver_does_not_hang_who_looks(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "TIMEOUT_S", 0.5)
    hanging = tree.process(40, "/dev/zero")
    # Whoever reads these waits for the process's memory, as with a process that hangs in a driver call.
    for name in ("maps", "cmdline"):
        (hanging / name).unlink()
        os.mkfifo(hanging / name)
    tree.process(41, "/dev/null", command="python3")
    found = tree.look()
    assert [(holder.pid, holder.command) for holder in found.holders] == [(40, "comm"), (41, "comm")]
    assert not found.complete
    (hanging / "maps").unlink()
    (hanging / "maps").touch()
    (hanging / "cmdline").unlink()
    assert tree.look().complete


def test_modules_come_after_those_that_use_them(tree: Tree) -> None:
    tree.module("nvidia", 9, "nvidia_uvm", "nvidia_modeset", "theirs")
    tree.module("nvidia_uvm", 2)
    tree.module("nvidia_modeset", 1, "nvidia_drm")
    tree.module("nvidia_drm", 1, "theirs")
    tree.module("theirs", 0)
    tree.module("nvidia_fs", 0)  # nvidia does not say so
    tree.module("drm", 3, "nvidia_drm")
    tree.module("nvidia_peermem", builtin=True)
    found = tree.look().modules
    assert [module.name for module in found] == [
        "theirs", "nvidia_fs", "nvidia_drm", "nvidia_modeset", "nvidia_uvm", "nvidia",
    ]  # fmt: skip
    assert found[-1] == Module("nvidia", 9, ("nvidia_modeset", "nvidia_uvm", "theirs"))


def test_a_module_that_the_kernel_itself_uses_is_kept(tree: Tree) -> None:
    tree.module("nvidia", 9, "nvidia_drm")
    tree.module("nvidia_drm", 1)
    assert tree.look().kept == ("nvidia_drm",)


def test_a_module_that_modules_or_processes_use_is_not_kept(tree: Tree) -> None:
    tree.module("nvidia", 9, "nvidia_drm")
    tree.module("nvidia_drm", 1, "theirs")
    assert tree.look().kept == ()
    found = Usage((holder("/dev/dri/card1"),), (Module("nvidia_drm", 1, ()),))
    assert found.kept == ()
    assert replace(found, holders=(holder("/dev/nvidia0"),)).kept == ("nvidia_drm",)


def holder(device: str) -> Holder:
    return Holder(7, "ann", "x", (device,))


def test_without_the_driver_nobody_uses_it(tree: Tree) -> None:
    (tree.proc / "devices").write_text("Character devices:\n  1 mem\n")
    tree.process(40, "/dev/zero", maps=MAP.format(2, "/dev/nvidia-uvm"))
    assert tree.look() == usage.Usage()


def test_looking_at_a_thousand_processes_is_quick(tree: Tree) -> None:
    maps = "".join(MAP.format(number % 10, f"/usr/lib/lib{number}.so") for number in range(150))
    for pid in range(1, 1001):
        tree.process(pid, *["socket:[1]", "/var/log/x", "/dev/null"] * 5, maps=maps)
    (tree.proc / "devices").write_text("Character devices:\n195 nvidia\n")
    begin = time.process_time()
    assert tree.look().holders == ()
    assert time.process_time() - begin < 1.5, "a third of that on an idle machine"
