"""What runs inside pods, against libraries that are Python objects."""

# ruff: noqa: N802 - the names are those of NVIDIA's libraries

from __future__ import annotations

import ctypes
import importlib
import json
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

UUID = [bytes(range(n, n + 16)) for n in (0, 16)]


class FakeCuda:
    """The driver API over Python memory.

    Args:
        simulated: carries the mark, and refuses launches as the simulated library does.
        launch: code of a launch; None for the library's own.
        works: whether an executed kernel really computes.
        spoils: whether copies are wrong.
    """

    def __init__(
        self, simulated: bool, launch: int | None = None, works: bool = True, spoils: bool = False
    ) -> None:
        self.fake_marker, self.works, self.spoils = simulated, works, spoils
        self.launch = launch if launch is not None else (801 if simulated else 0)
        self.memory: dict[int, bytearray] = {}
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)

        def call(*arguments: Any) -> int:
            self.calls.append(name)
            return int(getattr(self, "do_" + name)(*arguments) or 0)

        return call

    @staticmethod
    def put(reference: Any, value: Any) -> None:
        reference._obj.value = value

    def do_cuInit(self, flags: int) -> None: ...

    def do_cuDeviceGetCount(self, out: Any) -> None:
        self.put(out, 2)

    def do_cuDeviceGet(self, out: Any, ordinal: int) -> None:
        self.put(out, ordinal)

    def do_cuDeviceGetUuid(self, out: Any, device: Any) -> None:
        ctypes.memmove(out._obj, UUID[device.value], 16)

    def do_cuDeviceGetName(self, buffer: Any, size: int, device: Any) -> None:
        buffer.value = b"fake"

    def do_cuDriverGetVersion(self, out: Any) -> None:
        self.put(out, 13000)

    def do_cuCtxCreate_v2(self, out: Any, flags: int, device: int) -> None:
        self.put(out, 1)

    def do_cuCtxDestroy_v2(self, context: Any) -> None: ...

    def do_cuCtxSynchronize(self) -> None: ...

    def do_cuMemAlloc_v2(self, out: Any, size: Any) -> None:
        at = 4096 * (len(self.memory) + 1)
        self.memory[at] = bytearray(size.value)
        self.put(out, at)

    def do_cuMemFree_v2(self, pointer: Any) -> None:
        del self.memory[pointer.value]

    def do_cuMemcpyHtoD_v2(self, pointer: Any, source: Any, size: Any) -> None:
        self.memory[pointer.value][:] = bytes(source)

    def do_cuMemcpyDtoH_v2(self, target: Any, pointer: Any, size: Any) -> None:
        data = self.memory[pointer.value]
        if self.spoils:
            data = bytearray(data)
            data[:4] = struct.pack("f", -1.0)
        ctypes.memmove(target, bytes(data), size.value)

    def do_cuModuleLoadData(self, out: Any, image: bytes) -> None:
        assert image.endswith(b"\x00")

    def do_cuModuleUnload(self, module: Any) -> None: ...

    def do_cuModuleGetFunction(self, out: Any, module: Any, name: bytes) -> None:
        assert name == b"gpusmith_saxpy"

    def do_cuLaunchKernel(self, function: Any, *rest: Any) -> int:
        if self.launch == 0 and self.works:
            values = rest[8]
            x, y = (ctypes.c_uint64.from_address(values[n]).value for n in (0, 1))
            factor = ctypes.c_float.from_address(values[2]).value
            count = ctypes.c_uint32.from_address(values[3]).value
            layout = f"{count}f"
            results = (
                factor * a + b
                for a, b in zip(*(struct.unpack(layout, self.memory[at]) for at in (x, y)), strict=True)
            )
            self.memory[y][:] = struct.pack(layout, *results)
        return self.launch

    def do_cuGetErrorName(self, code: int, out: Any) -> None:
        self.put(
            out, {801: b"CUDA_ERROR_NOT_SUPPORTED", 719: b"CUDA_ERROR_LAUNCH_FAILED"}.get(code, b"CUDA_ERROR")
        )


class FakeNvml:
    """NVML that shows devices."""

    def __init__(self, uuids: list[str]) -> None:
        self.uuids = uuids

    def nvmlInit_v2(self) -> int:
        return 0

    def nvmlShutdown(self) -> int:
        return 0

    def nvmlDeviceGetCount_v2(self, out: Any) -> int:
        out._obj.value = len(self.uuids)
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: int, out: Any) -> int:
        out._obj.value = index + 1
        return 0

    def nvmlDeviceGetUUID(self, handle: Any, buffer: Any, size: int) -> int:
        buffer.value = self.uuids[handle.value - 1].encode()
        return 0

    def nvmlDeviceGetMinorNumber(self, handle: Any, out: Any) -> int:
        out._obj.value = handle.value - 1
        return 0


@pytest.fixture
def load(programs: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Imports a program as its pod would; the kernel's vectors are shortened."""
    monkeypatch.syspath_prepend(str(programs))
    monkeypatch.setenv("GPUSMITH_SIMULATED", "true")
    monkeypatch.setenv("GPUSMITH_GPUS", "2")
    before = set(sys.modules)
    driver = importlib.import_module("gpu_driver")
    monkeypatch.setattr(driver, "ELEMENTS", 1024)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", "") and str(programs) in str(sys.modules[name].__file__):
            del sys.modules[name]


@pytest.fixture
def uuids(load: Any) -> list[str]:
    return [load("gpu_driver").format_uuid(raw) for raw in UUID]


def test_uuid_is_written_as_nvml_does(uuids: list[str]) -> None:
    assert uuids[0] == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"


def test_simulated_gpu_refuses_the_launch_and_says_so(load: Any, uuids: list[str]) -> None:
    library = FakeCuda(simulated=True)
    result = load("run_cuda").work(library, FakeNvml(uuids))
    assert result["simulated"] is True
    assert result["not_executed"] == ["the kernel on the device"]
    assert [row["uuid"] for row in result["devices"]] == uuids
    assert all(row["launch"] == "CUDA_ERROR_NOT_SUPPORTED (801)" for row in result["devices"])
    assert library.calls.count("cuLaunchKernel") == 2
    assert library.memory == {}


def test_real_gpu_executes(load: Any, uuids: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSMITH_SIMULATED", "false")
    result = load("run_cuda").work(FakeCuda(simulated=False), FakeNvml(uuids))
    assert result["simulated"] is False
    assert result["not_executed"] == []
    assert all(row["launch"] == "executed" for row in result["devices"])


@pytest.mark.parametrize(
    ("says", "library", "words"),
    [
        ("false", FakeCuda(simulated=True), "inventory says the GPUs are real"),
        ("true", FakeCuda(simulated=False), "inventory says the GPUs are simulated"),
        ("", FakeCuda(simulated=True), "witness is missing"),
        ("false", FakeCuda(simulated=False, launch=719), "was not executed: CUDA_ERROR_LAUNCH_FAILED"),
        ("false", FakeCuda(simulated=False, launch=801), "was not executed: CUDA_ERROR_NOT_SUPPORTED"),
        ("false", FakeCuda(simulated=False, works=False), "the kernel's result is wrong"),
        (
            "false",
            FakeCuda(simulated=False, spoils=True),
            "a copy to the device and back is wrong in 1 of 1024",
        ),
        ("true", FakeCuda(simulated=True, launch=0), "a simulated GPU must refuse a launch"),
    ],
)
def test_nothing_else_passes(
    load: Any, uuids: list[str], monkeypatch: pytest.MonkeyPatch, says: str, library: FakeCuda, words: str
) -> None:
    monkeypatch.setenv("GPUSMITH_SIMULATED", says)
    with pytest.raises(load("gpu_driver").ProgramError, match=words):
        load("run_cuda").work(library, FakeNvml(uuids))


def test_other_number_of_gpus_than_given_fails(
    load: Any, uuids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUSMITH_GPUS", "1")
    with pytest.raises(
        load("gpu_driver").ProgramError, match="sees 2 devices in this container, it was given 1"
    ):
        load("run_cuda").work(FakeCuda(simulated=True), FakeNvml(uuids))


def test_holder_must_see_exactly_one(load: Any, uuids: list[str]) -> None:
    with pytest.raises(load("gpu_driver").ProgramError, match="a pod with one GPU sees"):
        load("hold_gpu").work(FakeCuda(simulated=True), FakeNvml(uuids))


def test_isolation_sees_a_device_node(load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look = load("look_around")
    monkeypatch.setattr(look, "made_nodes", list)
    assert look.work(str(tmp_path / "nvidia*"))["devices"] == []
    (tmp_path / "nvidia0").write_text("")
    with pytest.raises(load("gpu_driver").ProgramError, match="nvidia0"):
        look.work(str(tmp_path / "nvidia*"))


@pytest.fixture
def reach(load: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The network program; its Service is a socket of this test, on this machine."""
    program = load("reach_service")
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(program, "PORT", server.getsockname()[1])
        yield program


def test_network_names_what_it_reached(reach: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach.socket, "getaddrinfo", answers("127.0.0.1"))
    assert reach.work()["addresses"] == ["127.0.0.1"]


def test_network_without_dns_names_the_servers(reach: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    monkeypatch.setattr(reach, "nameservers", lambda: ["10.96.0.10"])
    monkeypatch.setattr(reach.socket, "getaddrinfo", fails)
    with pytest.raises(
        reach.ProgramError,
        match=r"does not resolve 'kubernetes.default.svc', it asks 10.96.0.10: .*Temporary",
    ):
        reach.work()


def test_network_without_a_way_names_the_address(reach: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    monkeypatch.setattr(reach, "PORT", port)
    monkeypatch.setattr(reach.socket, "getaddrinfo", answers("127.0.0.1"))
    with pytest.raises(reach.ProgramError, match=f"but does not reach it: 127.0.0.1 port {port}: .*refused"):
        reach.work()


def test_servers_are_read_as_the_resolver_reads_them(reach: Any, tmp_path: Path) -> None:
    conf = tmp_path / "resolv.conf"
    conf.write_text("# nameserver 1\nsearch a b\nnameserver 10.96.0.10\nnameserver\noptions ndots:5\n")
    assert reach.nameservers(str(conf)) == ["10.96.0.10"]


def answers(*addresses: str) -> Any:
    rows = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in addresses]
    # create_connection asks as well, of an address: it gets it back.
    asked = socket.getaddrinfo

    def answer(name: str, port: int, *rest: Any, **more: Any) -> Any:
        return rows if name == "kubernetes.default.svc" else asked(name, port, *rest, **more)

    return answer


def test_closed_form_agrees_with_gradient_descent(load: Any) -> None:
    training = load("training")
    x, y, _truth = training.problem()
    w, losses = [0.0] * training.COLUMNS, []
    for step in range(training.STEPS + 1):
        errors = [sum(a * b for a, b in zip(row, w, strict=True)) - t[0] for row, t in zip(x, y, strict=True)]
        losses.append(sum(error * error for error in errors) / training.ROWS)
        if step < training.STEPS:
            pairs = [(row, error) for row, error in zip(x, errors, strict=True)]
            w = [
                w[k] - training.RATE * 2 / training.ROWS * sum(row[k] * error for row, error in pairs)
                for k in range(len(w))
            ]
    judged = training.judge(losses, w)
    assert judged["max_difference"] < 1e-12
    assert judged["loss_last"] < judged["loss_first"] / 4
    with pytest.raises(load("gpu_driver").ProgramError, match="closed form"):
        training.judge(losses, [weight + 0.01 for weight in w])
    with pytest.raises(load("gpu_driver").ProgramError, match="does not fall"):
        training.judge([1.0, 1.0], w)


@pytest.mark.parametrize("program", ["run_cuda.py", "run_pytorch.py", "run_tensorflow.py"])
def test_program_without_a_driver_fails_with_a_result(programs: Path, program: str) -> None:
    done = subprocess.run(
        [sys.executable, str(programs / program)],
        env={"GPUSMITH_SIMULATED": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["ok"] is False
    assert "libcuda.so.1" in result["error"]
