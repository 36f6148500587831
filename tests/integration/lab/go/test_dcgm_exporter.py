"""The stand-in of dcgm-exporter, on the simulated NVML and beside a kubelet's socket."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from gpulab.artifacts import golang
from gpulab.artifacts.components import component
from simgpu.hardware import Machine
from simgpu.state import State

from gpusmith.wait import Deadline, Done, NotYet, wait_until
from tests.integration.simgpu.conftest import Node
from tests.integration.simgpu.conftest import libraries as libraries
from tests.integration.simgpu.conftest import node as node
from tests.unit.simgpu.conftest import VERSION
from tests.unit.simgpu.conftest import driven as driven
from tests.unit.simgpu.conftest import kernel as kernel
from tests.unit.simgpu.conftest import machine as machine

COUNTERS = """
# a comment

DCGM_FI_DEV_GPU_TEMP,   gauge, GPU temperature (in C).
DCGM_FI_DEV_POWER_USAGE , gauge, Power draw (in W).
DCGM_FI_DEV_ENC_UTIL, gauge, Encoder utilization (in %).
DCGM_FI_DEV_XID_ERRORS, gauge, Value of the last XID error encountered.
DCGM_EXP_XID_ERRORS_COUNT, gauge, XIDs of the window.
DCGM_EXP_CLOCK_EVENTS_COUNT, gauge, Reasons for slow clocks.
DCGM_FI_DRIVER_VERSION, label, Driver Version
"""


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the stand-in and a kubelet for it, compiled from modules that are on this machine."""
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed (lab/simgpu/host.txt)")
    part, out = component("dcgm-exporter"), tmp_path_factory.mktemp("programs")
    flags = {"CGO_LDFLAGS": part.cgo_ldflags, "CGO_LDFLAGS_ALLOW": "-Wl,--unresolved-symbols=.*"}
    env = {**os.environ, **golang.TOOLCHAIN, **flags, "GOWORK": "off", "GOPROXY": "off", "CGO_ENABLED": "1"}
    for name, package in (("dcgm-exporter", "."), ("kubelet", str(Path(__file__).with_name("kubelet.go")))):
        command = [golang.find_go(), "build", "-buildvcs=false", "-o", str(out / name), package]
        done = subprocess.run(command, cwd=part.folder, env=env, capture_output=True, text=True, check=False)
        if "GOPROXY=off" in done.stderr:
            pytest.skip("the lab's Go modules are not on this machine ('gpulab up' fetches them)")
        assert done.returncode == 0, done.stderr
    return out


@dataclass
class Exporter:
    """A running stand-in."""

    port: int
    process: subprocess.Popen[str]

    def get(self, path: str = "/metrics") -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            text: str = answer.read().decode()
        return text

    def values(self, name: str) -> list[tuple[str, str]]:
        """Labels and value of each series of a metric."""
        return re.findall(rf"^{name}\{{(.*)\}} (\S+)$", self.get(), re.MULTILINE)


Start = Callable[..., Exporter]


def until(what: str, holds: Callable[[], object]) -> None:
    wait_until(what, lambda: Done(None) if holds() else NotYet("not yet"), Deadline(20), tick=0.1)


@pytest.fixture
def start(node: Node, programs: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts the stand-in as the role's pod does; the words are lines of its metrics file."""
    started: list[subprocess.Popen[str]] = []

    def begin(counters: str = COUNTERS, **variables: str) -> Exporter:
        (tmp_path / "counters.csv").write_text(counters)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        given = {
            "DCGM_EXPORTER_LISTEN": f"127.0.0.1:{port}",
            "DCGM_EXPORTER_KUBERNETES": "true",
            "DCGM_EXPORTER_INTERVAL": "60000",
            "DCGM_POD_RESOURCES_KUBELET_SOCKET": str(tmp_path / "kubelet.sock"),
            "NODE_NAME": "gpu-1",
        }
        process = subprocess.Popen(
            [programs / "dcgm-exporter", "-f", tmp_path / "counters.csv"],
            env=node.env(given | variables),
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        exporter = Exporter(port, process)

        def answers() -> bool:
            try:
                return process.poll() is not None or exporter.get("/health") == "OK"
            except urllib.error.URLError:
                return False

        until("the stand-in", answers)
        return exporter

    yield begin
    for process in started:
        process.terminate()
        assert process.wait(timeout=10) is not None


@pytest.fixture
def kubelet(programs: Path, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Starts a kubelet whose pods hold these devices."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(*rows: str) -> None:
        path = tmp_path / "kubelet.sock"
        started.append(subprocess.Popen([programs / "kubelet", path, *rows]))
        until("the kubelet's socket", path.exists)

    yield begin
    for process in started:
        process.terminate()
        process.wait(timeout=10)


def gpus(machine: Machine) -> list[str]:
    """UUIDs in the order of NVML, which is the bus's."""
    return [gpu["uuid"] for gpu in sorted(machine["gpus"], key=lambda gpu: gpu["pci"])]


def report_xid(uuid: str, code: int) -> None:
    state = State.load()
    state.xid(next(gpu for gpu in state.gpus if gpu["uuid"] == uuid), code)
    state.save()


# What upstream's template makes of the same values ('internal/pkg/rendermetrics' and 'collector' at d5e5f51): first the GPU's
# own labels in this order, then labels, then attributes, each by name. Families are in the order of the file.
GOLDEN = """\
# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (in C).
# TYPE DCGM_FI_DEV_GPU_TEMP gauge
DCGM_FI_DEV_GPU_TEMP{<GPU>,<DRIVER>,<CONTAINER>,<POD>} <TEMP>
# HELP DCGM_FI_DEV_POWER_USAGE Power draw (in W).
# TYPE DCGM_FI_DEV_POWER_USAGE gauge
DCGM_FI_DEV_POWER_USAGE{<GPU>,<DRIVER>,<CONTAINER>,<POD>} <WATTS>
# HELP DCGM_FI_DEV_XID_ERRORS Value of the last XID error encountered.
# TYPE DCGM_FI_DEV_XID_ERRORS gauge
DCGM_FI_DEV_XID_ERRORS{<GPU>,<DRIVER>,<CONTAINER>,err_code="31",err_msg="stand-in",<POD>} 31
# HELP DCGM_EXP_XID_ERRORS_COUNT XIDs of the window.
# TYPE DCGM_EXP_XID_ERRORS_COUNT gauge
DCGM_EXP_XID_ERRORS_COUNT{<GPU>,<DRIVER>,window_size_in_ms="300000",xid="31",<CONTAINER>,<POD>} 2
DCGM_EXP_XID_ERRORS_COUNT{<GPU>,<DRIVER>,window_size_in_ms="300000",xid="79",<CONTAINER>,<POD>} 1
# HELP DCGM_EXP_CLOCK_EVENTS_COUNT Reasons for slow clocks.
# TYPE DCGM_EXP_CLOCK_EVENTS_COUNT gauge
DCGM_EXP_CLOCK_EVENTS_COUNT{<GPU>,<DRIVER>,clock_event="gpu_idle",window_size_in_ms="300000",<CONTAINER>,<POD>} 1
# HELP gpusmith_simulated 1: the GPUs are simulated, and the exporter is a stand-in for NVIDIA's.
# TYPE gpusmith_simulated gauge
gpusmith_simulated 1
"""


def test_the_text_is_what_upstream_writes(
    node: Node, start: Start, kubelet: Callable[..., None], machine: Machine
) -> None:
    node.devices(2)
    (gpu,) = (each for each in State.load().gpus if each["minor"] == "2")
    kubelet(f"nvidia.com/gpu={gpu['uuid']}=team-a/train-0/main", "other.com/nic=eth0=team-a/net/main")
    exporter = start()
    for code in (31, 79, 31):
        report_xid(gpu["uuid"], code)
    until("the Xids", lambda: '79"' in exporter.get() and "} 2\n" in exporter.get())
    own = (
        f'gpu="0",UUID="{gpu["uuid"]}",pci_bus_id="0000{gpu["pci"].upper()}",device="nvidia0",'
        'modelName="NVIDIA H100 80GB HBM3",hostname="gpu-1"'
    )
    words = {
        "GPU": own,
        "DRIVER": f'DCGM_FI_DRIVER_VERSION="{VERSION}"',
        "CONTAINER": 'container="main"',
        "POD": 'namespace="team-a",pod="train-0"',
        "TEMP": gpu["temp"],
        "WATTS": f"{int(gpu['power_mw']) / 1000:.6f}",
    }
    assert exporter.get() == re.sub("<([A-Z]+)>", lambda found: words[found[1]], GOLDEN)


def test_each_gpu_has_its_own_pod_and_a_shared_one_counts_too(
    start: Start, kubelet: Callable[..., None], machine: Machine
) -> None:
    first, second, third, _ = gpus(machine)
    kubelet(
        f"nvidia.com/gpu={first}=team-a/one/main",
        f"nvidia.com/gpu.shared={second}::3=team-b/two/main",
        f"example.com/gpu={third}=team-c/three/main",
    )
    exporter = start(NVIDIA_RESOURCE_NAMES="nvidia.com/gpu.shared")
    found = {
        re.search('UUID="([^"]*)"', labels)[1]: re.findall('pod="([^"]*)"', labels)  # type: ignore[index]
        for labels, _ in exporter.values("DCGM_FI_DEV_GPU_TEMP")
    }
    assert found == dict(zip(gpus(machine), [["one"], ["two"], [], []], strict=True))


def test_without_kubelet_all_values_are_there_without_pods(start: Start) -> None:
    labels = [labels for labels, _ in start().values("DCGM_FI_DEV_GPU_TEMP")]
    assert len(labels) == 4
    assert not any("pod=" in each for each in labels)


def test_a_lost_gpu_still_reports_its_xid_and_no_more_values(
    start: Start, node: Node, machine: Machine
) -> None:
    lost = gpus(machine)[1]
    exporter = start()
    state = State.load()
    gpu = next(gpu for gpu in state.gpus if gpu["uuid"] == lost)
    gpu["lost"] = "1"
    state.xid(gpu, 79)
    state.save()
    until("the Xid", lambda: exporter.values("DCGM_FI_DEV_XID_ERRORS"))
    ((labels, code),) = exporter.values("DCGM_FI_DEV_XID_ERRORS")
    assert lost in labels
    assert code == "79"
    assert [
        value for labels, value in exporter.values("DCGM_EXP_XID_ERRORS_COUNT") if 'xid="79"' in labels
    ] == ["1"]
    reporting = [labels for labels, _ in exporter.values("DCGM_FI_DEV_GPU_TEMP")]
    assert len(reporting) == 3
    assert not any(lost in labels for labels in reporting)


def test_an_xid_leaves_the_count_after_its_window_and_stays_the_last_one(
    start: Start, machine: Machine
) -> None:
    exporter = start(DCGM_EXPORTER_XID_COUNT_WINDOW_SIZE="1500")
    report_xid(gpus(machine)[0], 48)
    until("the Xid", lambda: 'xid="48"' in exporter.get())
    until("the window's end", lambda: 'xid="48"' not in exporter.get())
    assert [value for _, value in exporter.values("DCGM_EXP_XID_ERRORS_COUNT")] == ["0"] * 4
    assert [value for _, value in exporter.values("DCGM_FI_DEV_XID_ERRORS")] == ["48"]


def test_reasons_for_slow_clocks_are_counted_by_samples(start: Start, node: Node) -> None:
    state = State.load()
    state.gpus[0]["throttle"] = str(0x8 | 0x40)
    state.save()
    exporter = start(DCGM_EXPORTER_INTERVAL="100")

    def slow() -> dict[str, int]:
        rows = exporter.values("DCGM_EXP_CLOCK_EVENTS_COUNT")
        return {
            labels.split('clock_event="')[1].split('"')[0]: int(value)
            for labels, value in rows
            if 'gpu="0"' in labels
        }

    until("samples", lambda: slow().get("hw_slowdown", 0) > 2)
    assert set(slow()) == {"hw_slowdown", "hw_thermal"}


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("DCGM_FI_DEV_GPU_TEMPP, gauge, x", "could not find DCGM field 'DCGM_FI_DEV_GPU_TEMPP'"),
        ("DCGM_FI_DEV_GPU_TEMP, number, x", "metric type 'number' of 'DCGM_FI_DEV_GPU_TEMP'"),
        ("DCGM_FI_DEV_GPU_TEMP, gauge", "wrong number of fields"),
    ],
)
def test_a_file_with_a_mistake_ends_the_start_and_is_named(start: Start, line: str, named: str) -> None:
    process = start(f"DCGM_FI_DEV_POWER_USAGE, gauge, x\n{line}\n").process
    assert process.wait(timeout=10) == 1
    assert process.stderr is not None
    said = process.stderr.read()
    assert "stand-in" in said
    assert named in said


def test_real_gpus_are_refused(start: Start, node: Node, tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    library = (node.libraries / "libnvidia-ml.so.1").read_bytes()
    # Another name for the symbol by which a simulated NVML is known.
    (real / "libnvidia-ml.so.1").write_bytes(
        library.replace(b"gpusmith_simulated\0", b"gpusmith_simulatex\0")
    )
    process = start(LD_LIBRARY_PATH=str(real)).process
    assert process.wait(timeout=10) == 1
    assert process.stderr is not None
    assert "use NVIDIA's dcgm-exporter" in process.stderr.read()
