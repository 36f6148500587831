"""Who uses the driver, by trees as /proc and /sys have them. /dev/zero and its kin stand for the driver's devices."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
