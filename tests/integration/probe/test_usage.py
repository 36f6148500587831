"""Who uses the driver, by trees as /proc and /sys have them. /dev/zero and its kin stand for the driver's devices."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpusmith.probe import usage
from tests.unit.probe.test_usage import DEVICES


def test_processes_of_this_machine_are_found_and_looking_is_quick(tmp_path: Path) -> None:
    # /proc itself, with a list of devices that gives /dev/zero's number to the driver.
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "devices").write_text(DEVICES)
    code = "import mmap,os,sys\nf=os.open('/dev/zero',os.O_RDWR)\nm=mmap.mmap(f,4096)\nos.close(f)\nprint(flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as client:
        assert client.stdout
        client.stdout.readline()
        (proc / str(client.pid)).symlink_to(f"/proc/{client.pid}")
        (holder,) = usage.gather(str(proc), str(tmp_path)).holders
        assert (holder.pid, holder.command) == (client.pid, f"{sys.executable} -c"[: usage.COMMAND_LENGTH])
        assert "/dev/zero" in holder.devices
        client.communicate("\n")


def test_a_process_of_this_machine_that_has_a_gpu_open_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proc, gpu = tmp_path / "proc", tmp_path / "dev/nvidia0"
    for folder in (proc, gpu.parent):
        folder.mkdir()
    (proc / "devices").write_text(DEVICES)
    try:
        os.mknod(gpu, 0o600 | stat.S_IFCHR, Path("/dev/zero").stat().st_rdev)
        gpu.open("rb").close()
    except PermissionError:
        pytest.skip("needs the right to make device nodes")
    code = f"import os\nf=os.open({str(gpu)!r},os.O_RDWR)\nprint(flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as client:
        assert client.stdout
        client.stdout.readline()
        (proc / str(client.pid)).symlink_to(f"/proc/{client.pid}")
        assert usage.of_gpus(usage.ask(str(proc), str(tmp_path)), []) == (), "it began a moment ago"
        monkeypatch.setattr(usage, "PASSES_S", -1.0)
        found = usage.of_gpus(usage.ask(str(proc), str(tmp_path)), [])
        assert found
        (holder,) = found
        assert (holder.pid, holder.minors, holder.devices) == (client.pid, (0,), (str(gpu),))
        assert holder.started_unix is not None
        assert 0 < time.time() - holder.started_unix < 30
        client.communicate("\n")
