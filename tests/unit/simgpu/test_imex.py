"""The simulated IMEX service: what it says of its list, and that it stays and uses the driver where it can."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpulab.simgpu import packages, source_dir
from simgpu.state import State

from tests.unit.simgpu.conftest import VERSION

CONFIG, NODES = "etc/nvidia-imex/config.cfg", "etc/nvidia-imex/nodes_config.cfg"
OWN, STRANGE = "127.0.0.1\n203.0.113.2\n", "203.0.113.1\n203.0.113.2\n"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed (lab/simgpu/host.txt)")
    path = tmp_path_factory.mktemp("imex") / "nvidia-imex"
    define = f'-DDRIVER_VERSION="{VERSION}"'
    source = source_dir() / "src" / "nvidia-imex.c"
    packages.run("gcc", *packages.CFLAGS, "-Werror", "-DSIMGPU_TEST", define, "-o", path, source, "-lpthread")
    return path


def running(program: Path) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "exe").readlink() == program:
                found.append(int(folder.name))
        except OSError:
            continue
    return found


@pytest.fixture
def service(program: Path, node: Any) -> Iterator[Path]:
    (node.root / CONFIG).parent.mkdir(parents=True)
    (node.root / CONFIG).write_text(f"LOG_LEVEL=4\nIMEX_NODE_CONFIG_FILE=/{NODES}\n")
    yield program
    for pid in running(program):
        os.kill(pid, signal.SIGKILL)


def started(service: Path, node: Any, nodes: str | None) -> tuple[int, str]:
    if nodes is not None:
        (node.root / NODES).write_text(nodes)
    words = [str(service), "-c", f"/{CONFIG}"]
    done = subprocess.run(words, capture_output=True, text=True, env=node.env(), timeout=30, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize("nodes", [None, "", "\n"])
def test_without_nodes_it_ends_well(service: Path, node: Any, nodes: str | None) -> None:
    assert started(service, node, nodes) == (0, "")
    assert running(service) == []


def test_it_ends_where_no_address_is_its_own(service: Path, node: Any) -> None:
    code, said = started(service, node, STRANGE)
    assert (code, "No matching network interface found" in said) == (1, True)


def test_it_ends_without_its_own_driver(service: Path, node: Any) -> None:
    node.change(version="595.91.07")
    assert started(service, node, OWN)[0] == 1
    state = State.load()
    state.modules = []
    state.save()
    assert "not loaded" in started(service, node, OWN)[1]


def test_it_stays_until_it_is_stopped(service: Path, node: Any) -> None:
    assert started(service, node, OWN) == (0, "")
    (pid,) = running(service)
    held = [str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()]
    # What a reload of the driver finds.
    assert str(node.root / "dev/nvidiactl") in held
    os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + 10
    while running(service) and time.monotonic() < end:
        time.sleep(0.05)
    assert running(service) == []
