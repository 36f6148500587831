"""MPS as its users see it: the control daemon as NVIDIA's device plugin runs it, its clients, and programs that are none."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gpulab.simgpu import packages, source_dir
from simgpu.state import State

from tests.integration.simgpu.test_libraries import completed
from tests.integration.simgpu.test_mig import Smi
from tests.integration.simgpu.test_mig import kernel_program as kernel_program
from tests.integration.simgpu.test_mig import smi as smi
from tests.unit.simgpu.conftest import VERSION

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may change settings")
Control = Callable[..., str]
BUSY, OUT_OF_MEMORY, RPC_FAILURE = 46, 2, 806

CLIENT = """
import ctypes, json, sys
c = ctypes.CDLL('libcuda.so.1')
def context():
    out = ctypes.c_void_p()
    return c.cuCtxCreate_v2(ctypes.byref(out), 0, 0)
def allocate(mib):
    out = ctypes.c_uint64()
    return c.cuMemAlloc_v2(ctypes.byref(out), ctypes.c_size_t(mib << 20))
init = c.cuInit(0)
"""
ASK = CLIENT + "made = context()\nprint(json.dumps([init, made, [allocate(mib) for mib in (100, 30000)]]))"
STAYS = CLIENT + "print([init, context()], flush=True)\nsys.stdin.readline()\nprint(allocate(1), flush=True)"


@pytest.fixture(autouse=True)
def fabric(node: Any) -> Iterator[None]:
    """The fabric is up."""
    handle = completed(node)
    yield
    os.close(handle)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the daemon's socket and its log are."""
    made = tmp_path / "mps"
    made.mkdir()
    return made


@pytest.fixture
def environment(node: Any, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of the daemon and its clients, with the programs as they are in the driver's packages."""
    programs = tmp_path_factory.mktemp("programs")
    for name in ("nvidia-cuda-mps-control", "nvidia-cuda-mps-server"):
        source, _flags = packages.PROGRAMS[name]
        defines = (f'-DDRIVER_VERSION="{VERSION}"', "-DSIMGPU_TEST", "-O0")
        packages.run(
            "gcc",
            *packages.CFLAGS,
            *defines,
            "-o",
            programs / name,
            source_dir() / "src" / source,
            "-lpthread",
        )
    more = {
        "PATH": f"{programs}:/usr/bin:/bin",
        "CUDA_MPS_PIPE_DIRECTORY": str(folder),
        "CUDA_MPS_LOG_DIRECTORY": str(folder),
    }
    found: dict[str, str] = node.env(more)
    return found


@pytest.fixture
def control(environment: dict[str, str]) -> Control:
    """Sends a command to the daemon."""

    def send(command: str, status: int = 0) -> str:
        done = subprocess.run(
            ["nvidia-cuda-mps-control"],
            input=command,
            capture_output=True,
            text=True,
            env=environment,
            timeout=20,
        )
        assert done.returncode == status, done
        return done.stdout

    return send


@pytest.fixture
def daemon(environment: dict[str, str], folder: Path, control: Control) -> Iterator[int]:
    """PID of a running one, limited as NVIDIA's daemon limits four shares of a GPU with 80 GB."""
    subprocess.run(["nvidia-cuda-mps-control", "-d"], env=environment, check=True, timeout=20)
    control("get_server_list")  # when it answers, it is up
    yield int((folder / "nvidia-cuda-mps-control.pid").read_text())
    if (folder / "control").exists():
        subprocess.run(
            ["nvidia-cuda-mps-control"], input="quit -f", text=True, env=environment, timeout=20, check=False
        )


@pytest.fixture
def exclusive(kernel_program: None, smi: Smi) -> None:
    """All GPUs in the mode that NVIDIA's daemon sets."""
    status, output = smi("-c", "EXCLUSIVE_PROCESS")
    assert (status, output.count("Set compute mode to EXCLUSIVE_PROCESS for GPU")) == (0, 4)


def test_the_compute_mode_is_set_by_name_and_seen(exclusive: None, smi: Smi, node: Any) -> None:
    assert [row["compute_mode"] for row in State.load().gpus] == ["3"] * 4
    uuid = State.load().gpus[1]["uuid"]
    assert smi("-i", uuid, "-c", "DEFAULT")[0] == 0
    said = smi("--query-gpu=compute_mode", "--format=csv,noheader")[1].split()
    assert (said.count("Exclusive_Process"), said.count("Default")) == (3, 1)
    assert smi("-c", "EXCLUSIVE_THREAD") == (2, "Invalid compute mode: EXCLUSIVE_THREAD\n")
    assert "Exclusive_Process" in smi()[1]


def test_without_a_daemon_programs_compute_unless_the_mode_is_exclusive(
    node: Any, environment: dict[str, str], control: Control, smi: Smi, kernel_program: None
) -> None:
    assert node.python(ASK, environment) == [0, 0, [0, 0]]
    assert "Cannot find MPS control daemon process" in control("get_server_list", status=1)
    smi("-c", "EXCLUSIVE_PROCESS")
    assert node.python(ASK, environment)[:2] == [0, BUSY]
    smi("-c", "PROHIBITED")
    assert node.python(ASK, environment)[:2] == [0, BUSY]


@pytest.mark.usefixtures("exclusive")
def test_clients_share_a_server_and_are_limited(
    node: Any, environment: dict[str, str], control: Control, daemon: int, folder: Path
) -> None:
    assert control("get_server_list") == "", "nobody asked for one yet"
    assert control("set_default_device_pinned_mem_limit 0 20389M") == ""
    assert control("set_default_active_thread_percentage 25") == "25.0\n"
    assert control("get_default_active_thread_percentage") == "25.0\n"
    assert node.python(ASK, environment) == [0, 0, [0, OUT_OF_MEMORY]]
    (server,) = control("get_server_list").split()
    assert Path(f"/proc/{server}/comm").read_text().strip() == "nvidia-cuda-mps"
    clients = [
        subprocess.Popen(
            [sys.executable, "-c", STAYS],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    assert [row.stdout.readline() for row in clients if row.stdout] == ["[0, 0]\n"] * 2
    seen = sorted(map(int, control(f"get_client_list {server}").split()))
    assert seen == sorted(row.pid for row in clients)
    # Who is no client: another folder is what a pod without the mount has.
    assert node.python(ASK, {**environment, "CUDA_MPS_PIPE_DIRECTORY": "/nowhere"})[:2] == [0, BUSY]
    answers = [row.communicate("\n", timeout=20)[0] for row in clients]
    assert answers == ["0\n", "0\n"]
    assert control("quit") == ""
    assert not (folder / "control").exists()
    assert not Path(f"/proc/{server}").exists()


def at_work(environment: dict[str, str]) -> subprocess.Popen[str]:
    """A client with a context, which tries to get memory once it is told to go on."""
    client = subprocess.Popen(
        [sys.executable, "-c", STAYS],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert client.stdout
    client.stdout.readline()
    return client


@pytest.mark.usefixtures("exclusive")
def test_a_daemon_that_is_killed_takes_its_server_and_the_work_of_its_clients(
    node: Any, environment: dict[str, str], control: Control, daemon: int
) -> None:
    client = at_work(environment)
    server = int(control("get_server_list"))
    os.kill(daemon, 9)
    # They end in their own time, the server by a signal of the kernel.
    while any(list(Path(f"/proc/{pid}/fd").glob("*")) for pid in (daemon, server)):
        time.sleep(0.01)
    assert client.communicate("\n", timeout=20)[0] == f"{RPC_FAILURE}\n"
    control("get_server_list", status=1)
    assert [row["compute_mode"] for row in State.load().gpus] == ["3"] * 4, "nobody set it back"
    subprocess.run(["nvidia-cuda-mps-control", "-d"], env=environment, check=True, timeout=20)
    assert node.python(ASK, environment)[:2] == [0, 0]


def test_quit_waits_for_clients_and_a_second_daemon_is_refused(
    environment: dict[str, str], daemon: int, folder: Path
) -> None:
    second = subprocess.run(
        ["nvidia-cuda-mps-control", "-d"], env=environment, capture_output=True, text=True, timeout=20
    )
    assert (second.returncode, second.stdout) == (1, "An instance of this daemon is already running\n")
    client = at_work(environment)
    quits = subprocess.Popen(
        ["nvidia-cuda-mps-control"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with pytest.raises(subprocess.TimeoutExpired):
        quits.communicate("quit", timeout=0.5)
    client.communicate("\n", timeout=20)
    assert quits.communicate(timeout=20)[0] == ""
    assert not (folder / "control").exists()
