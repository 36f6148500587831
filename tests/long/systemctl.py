"""In place of systemd: starts the real containerd as its unit does (Type=notify), and says when.

Called 'journalctl' it shows the log.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

PID, LOG, STARTS, ADDRESS = (Path(f"/run/systemctl.{name}") for name in ("pid", "log", "starts", "notify"))
PATIENCE_S = 30
FAILED = "Job for containerd.service failed because the control process exited with error code."


def runs(pid: int) -> bool:
    """Whether a process runs, and is not only waited for."""
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def known() -> int:
    """The process that was started last; 0 if none was."""
    return int(PID.read_text()) if PID.exists() else 0


def stop() -> None:
    """End the process that runs."""
    pid = known()
    begin = time.monotonic()
    if runs(pid):
        os.kill(pid, signal.SIGTERM)
    while runs(pid):
        if time.monotonic() - begin > PATIENCE_S:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def restart() -> int:
    """Stop and start containerd; it is up when it says so."""
    stop()
    ADDRESS.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told, LOG.open("w") as log:
        told.bind(str(ADDRESS))
        told.settimeout(0.1)
        started = subprocess.Popen(
            ["containerd"],
            env={**os.environ, "NOTIFY_SOCKET": str(ADDRESS)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        PID.write_text(str(started.pid))
        begin = time.monotonic()
        while started.poll() is None and time.monotonic() - begin < PATIENCE_S:
            try:
                if b"READY=1" in told.recv(4096):
                    # systemd tells whole seconds.
                    with STARTS.open("a") as file:
                        file.write(f"{int(time.time())}\n")
                    return 0
            except TimeoutError:
                continue
    print(FAILED, file=sys.stderr)
    return 1


def show() -> int:
    """What the module asks."""
    active = bool(known()) and runs(known())
    print(
        "Id=containerd.service",
        f"ActiveState={'active' if active else 'failed'}",
        "UnitFileState=enabled",
        sep="\n",
    )
    if active:
        last = time.gmtime(int(STARTS.read_text().split()[-1]))
        print(time.strftime("ActiveEnterTimestamp=%a %Y-%m-%d %H:%M:%S UTC", last))
    return 0


if Path(sys.argv[0]).name == "journalctl":
    print(*LOG.read_text().splitlines()[-5:], sep="\n")
else:
    sys.exit(restart() if sys.argv[1] == "restart" else show())
