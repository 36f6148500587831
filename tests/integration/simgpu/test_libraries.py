"""The simulated libraries as their users see them: pynvml, and CUDA's driver API by ctypes."""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from gpulab.simgpu import packages
from simgpu import cli, modules, paths
from simgpu.hardware import Machine
from simgpu.state import State

from gpusmith.node.bundle import bundle
from gpusmith.node.records import parse
from tests.integration.pythons import PYTHONS
from tests.unit.simgpu.conftest import VERSION

LIST = """
import json, pynvml as n
n.nvmlInit()
rows = []
for i in range(n.nvmlDeviceGetCount()):
    try:
        h = n.nvmlDeviceGetHandleByIndex(i)
        rows.append([n.nvmlDeviceGetUUID(h), n.nvmlDeviceGetMinorNumber(h), n.nvmlDeviceGetPciInfo(h).busId])
    except n.NVMLError as error:
        rows.append(error.value)
print(json.dumps(rows))
"""
INIT = """
import json, pynvml as n
try:
    n.nvmlInit()
    print(0)
except n.NVMLError as error:
    print(error.value)
"""
CUDA = """
import ctypes, json
c = ctypes.CDLL('libcuda.so.1')
init = c.cuInit(0)
n = ctypes.c_int()
c.cuDeviceGetCount(ctypes.byref(n))
uuids = []
for i in range(n.value):
    b = (ctypes.c_ubyte * 16)()
    assert c.cuDeviceGetUuid_v2(b, i) == 0
    uuids.append(bytes(b).hex())
print(json.dumps([init, uuids]))
"""


def completed(node: Any) -> int:
    """Bring the fabric up as its manager does; the lock ends with the descriptor that is returned."""
    node.change(fabric="3")
    handle = os.open(paths.LIVE, os.O_RDONLY)
    fcntl.fcntl(handle, modules.F_OFD_SETLK, modules.flock_struct(fcntl.F_RDLCK, 9))
    return handle


def test_pynvml_lists_gpus_by_bus_with_their_minors(node: Any, machine: Machine) -> None:
    expected = sorted((gpu["pci"], minor, gpu["uuid"]) for minor, gpu in enumerate(machine["gpus"]))
    rows = node.python(LIST)
    assert [row[0] for row in rows] == [uuid for _, _, uuid in expected]
    assert [row[1] for row in rows] == [minor for _, minor, _ in expected]
    assert [row[2][4:].lower() for row in rows] == [pci for pci, _, _ in expected]


def test_only_granted_device_nodes_are_seen(node: Any, machine: Machine) -> None:
    node.devices(2)
    assert [row[0] for row in node.python(LIST)] == [machine["gpus"][2]["uuid"]]


def test_health_as_pynvml_reads_it(node: Any) -> None:
    facts = node.python(
        """
import json, pynvml as n
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
fabric = n.c_nvmlGpuFabricInfo_v3_t()
n.nvmlDeviceGetGpuFabricInfoV(h, n.byref(fabric))
print(json.dumps([n.nvmlDeviceGetName(h), n.nvmlSystemGetDriverVersion(), n.nvmlDeviceGetMemoryInfo(h).total >> 20,
    n.nvmlDeviceGetMemoryInfo(h, version=n.nvmlMemory_v2).total >> 20, list(n.nvmlDeviceGetCudaComputeCapability(h)),
    list(n.nvmlDeviceGetMigMode(h)), list(n.nvmlDeviceGetRemappedRows(h)), n.nvmlDeviceGetTotalEccErrors(h, 1, 0),
    n.nvmlDeviceGetCurrentClocksEventReasons(h), n.nvmlDeviceGetPersistenceMode(h), fabric.state, n.nvmlDeviceGetArchitecture(h),
    n.nvmlDeviceGetTopologyCommonAncestor(h, n.nvmlDeviceGetHandleByIndex(1)), n.nvmlDeviceGetNvLinkState(h, 17)]))
"""
    )
    assert facts == [
        "NVIDIA H100 80GB HBM3", "580.178.04", 81559, 81559, [9, 0], [0, 0], [0, 0, 0, 0], 0, 1, 0, 1, 9, 40, 1
    ]  # fmt: skip


def test_what_is_not_simulated_is_refused(node: Any) -> None:
    code = """
import json, pynvml as n
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
answers = []
for f, a in ((n.nvmlDeviceSetMigMode, (h, 1)), (n.nvmlDeviceGetFanSpeed, (h,)), (n.nvmlDeviceGetNvLinkInfo, (h, 0))):
    try:
        f(*a)
        answers.append(0)
    except n.NVMLError as error:
        answers.append(error.value)
    except Exception:
        answers.append(-1)
print(json.dumps(answers))
"""
    assert 0 not in node.python(code)


CODE = """
def code(f, *a):
    try:
        f(*a)
    except n.NVMLError as error:
        return error.value
    return 0
"""
"""What a call of NVML answers, as a number."""

SETTINGS = f"""
import json, pynvml as n
{CODE}
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(1)
print(json.dumps([
    [code(n.nvmlDeviceSetPowerManagementLimit, h, watts * 1000) for watts in (100, 500, 701)],
    code(n.nvmlDeviceSetPersistenceMode, h, 1),
    [n.nvmlDeviceGetPowerManagementLimit(h), n.nvmlDeviceGetEnforcedPowerLimit(h), n.nvmlDeviceGetPersistenceMode(h)],
]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change settings")
def test_settings_are_set_by_the_kernel_and_seen(
    node: Any, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert node.python(SETTINGS)[:2] == [[2, 4, 2], 4], "nobody may without the simulated kernel's program"
    program = node.root / "usr" / "lib" / "simgpu" / "simgpu"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\necho "$*" >> {node.root}/asked\n')
    program.chmod(0o755)
    assert node.python(SETTINGS)[:2] == [[2, 0, 2], 0]
    asked = (node.root / "asked").read_text().splitlines()
    address = sorted(gpu["pci"] for gpu in machine["gpus"])[1]
    assert asked == [f"set {address} limit_mw 500000", f"set {address} persistence 1"]
    for line in asked:
        assert cli.main(line.split()) == 0
    assert node.python(SETTINGS)[2] == [500000, 500000, 1]
    assert cli.main(["set", "0000:ff:00.0", "persistence", "1"]) != 0
    assert "does not drive" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change settings")
def test_nvidia_smi_changes_the_gpu_that_is_named_and_no_other(
    node: Any, machine: Machine, built: packages.Driver
) -> None:
    gpu = sorted(machine["gpus"], key=lambda row: row["pci"])[2]
    program = node.root / "usr" / "lib" / "simgpu" / "simgpu"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\necho "$*" >> {node.root}/asked\n')
    program.chmod(0o755)

    def smi(*words: str) -> tuple[int, str]:
        done = subprocess.run(
            [built.part("nvidia-smi"), *words], capture_output=True, text=True, env=node.env(), timeout=30
        )
        return done.returncode, done.stdout

    code, text = smi("-i", gpu["uuid"], "-pl", "350.5")
    assert (code, "was set to 350.50 W from 700.00 W" in text) == (0, True)
    assert smi("-i", gpu["pci"], "-pm", "0")[0] == 0
    assert smi("-i", "2", "-pl", "300")[0] == 0
    assert smi("-i", "GPU-none", "-pl", "300") == (6, "No devices were found\n")
    code, text = smi("-i", "2", "-pl", "900")
    assert (code, "not a valid power limit which should be between 200.00 W and 700.00 W" in text) == (
        2,
        True,
    )
    asked = (node.root / "asked").read_text().splitlines()
    assert asked == [
        f"set {gpu['pci']} limit_mw 350500", f"set {gpu['pci']} persistence 2", f"set {gpu['pci']} limit_mw 300000",
    ]  # fmt: skip
    # Also while the daemon keeps the others.
    handle = os.open(paths.LIVE, os.O_RDONLY)
    fcntl.fcntl(handle, modules.F_OFD_SETLK, modules.flock_struct(fcntl.F_RDLCK, 8))
    for line in asked:
        assert cli.main(line.split()) == 0
    query = ("--query-gpu=uuid,power.limit,persistence_mode", "--format=csv,noheader,nounits")
    rows = smi(*query)[1].splitlines()
    assert rows[2] == f"{gpu['uuid']}, 300.00, Disabled"
    assert rows[1].endswith(", 700.00, Enabled")
    assert smi("-i", gpu["uuid"], *query)[1].splitlines() == [rows[2]]
    os.close(handle)


@pytest.mark.parametrize(
    ("values", "code"),
    [({"modules": ""}, 9), ({"version": "580.95.05"}, 18), ({}, 0)],
    ids=["not-loaded", "mismatch", "good"],
)
def test_init_codes(node: Any, values: dict[str, str], code: int) -> None:
    node.change(**values)
    assert node.python(INIT) == code


def test_init_without_a_machine(node: Any) -> None:
    paths.LIVE.unlink()
    assert node.python(INIT) == 9


def test_init_without_control_device(node: Any) -> None:
    (node.root / "dev" / "nvidiactl").unlink()
    assert node.python(INIT) == 9


def test_lost_gpu_is_named_and_the_others_stay(node: Any) -> None:
    state = State.load()
    state.gpus[1]["lost"] = "1"
    state.save()
    rows = node.python(LIST)
    assert rows[1] == 15
    assert sum(isinstance(row, list) for row in rows) == 3


def test_xid_reaches_a_running_process(node: Any) -> None:
    code = """
import json, pynvml as n
n.nvmlInit()
s = n.nvmlEventSetCreate()
for i in range(4):
    n.nvmlDeviceRegisterEvents(n.nvmlDeviceGetHandleByIndex(i), n.nvmlEventTypeXidCriticalError, s)
print('ready', flush=True)
e = n.nvmlEventSetWait_v2(s, 10000)
print(json.dumps([e.eventData, n.nvmlDeviceGetMinorNumber(e.device), e.gpuInstanceId == 0xffffffff]))
"""
    with subprocess.Popen(node.command(code), stdout=subprocess.PIPE, text=True, env=node.env()) as client:
        assert client.stdout
        assert client.stdout.readline() == "ready\n"
        state = State.load()
        gpu = next(row for row in state.gpus if row["minor"] == "2")
        state.xid(gpu, 79)
        state.save()
        assert client.stdout.readline() == "[79, 2, true]\n"


def test_clients_hold_the_module(node: Any) -> None:
    assert modules.users("nvidia") == 0
    code = """
import pynvml as n
n.nvmlInit()
print('ready', flush=True)
input()
n.nvmlShutdown()
print('done', flush=True)
input()
"""
    pipe = subprocess.PIPE
    with subprocess.Popen(node.command(code), text=True, env=node.env(), stdin=pipe, stdout=pipe) as client:
        assert client.stdin
        assert client.stdout
        client.stdout.readline()
        shown = {str(entry.readlink()) for entry in Path(f"/proc/{client.pid}/fd").iterdir()}
        assert modules.users("nvidia") == 1
        assert modules.users("nvidia_uvm") == 0
        assert not modules.lockable("nvidia")
        assert {str(node.root / "dev" / f"nvidia{minor}") for minor in range(4)} <= shown
        client.stdin.write("\n")
        client.stdin.flush()
        client.stdout.readline()
        assert modules.lockable("nvidia")
        client.communicate("\n")


def test_readers_never_see_half_a_write(node: Any) -> None:
    code = """
import pynvml as n, time
n.nvmlInit()
print('ready', flush=True)
end, reads = time.monotonic() + 1.5, 0
while time.monotonic() < end:
    h = n.nvmlDeviceGetHandleByIndex(reads % 4)
    assert n.nvmlDeviceGetTemperature(h, 0) in (31, 91)
    reads += 1
print(reads)
"""
    with subprocess.Popen(node.command(code), stdout=subprocess.PIPE, text=True, env=node.env()) as client:
        assert client.stdout
        client.stdout.readline()
        state = State.load()
        end = time.monotonic() + 1.4
        while time.monotonic() < end:
            for row in state.gpus:
                row["temp"] = "91" if row["temp"] == "31" else "31"
            state.save()
        assert int(client.stdout.readline()) > 10
    assert client.returncode == 0


def test_cuda_waits_for_the_fabric(node: Any) -> None:
    assert node.python(CUDA)[0] == 802
    node.change(fabric="3")
    assert node.python(CUDA)[0] == 802, "a fabric without its manager is not ready"
    handle = completed(node)
    assert node.python(CUDA)[0] == 0
    os.close(handle)


def test_cuda_sees_the_same_gpus_as_nvml(node: Any) -> None:
    handle = completed(node)
    code, uuids = node.python(CUDA)
    nvml = [row[0].removeprefix("GPU-").replace("-", "") for row in node.python(LIST)]
    assert (code, uuids) == (0, nvml)
    os.close(handle)


@pytest.mark.parametrize(
    ("value", "count"), [("1", 1), ("3,0", 2), ("", 0), ("-1", 0), ("0,9,1", 1), ("0,0", 0), ("GPU-zz", 0)]
)
def test_cuda_visible_devices(node: Any, value: str, count: int) -> None:
    handle = completed(node)
    code, uuids = node.python(CUDA, {"CUDA_VISIBLE_DEVICES": value})
    assert len(uuids) == count
    assert code == (0 if count else 100)
    os.close(handle)


@pytest.mark.parametrize(
    ("values", "code"),
    [({"modules": ""}, 100), ({"version": "595.91.07"}, 803), ({"modules": "nvidia"}, 999)],
)
def test_cuda_init_codes(node: Any, values: dict[str, str], code: int) -> None:
    handle = completed(node)
    node.change(**values)
    assert node.python(CUDA)[0] == code
    os.close(handle)


def test_nvml_starts_and_cuda_of_a_broken_version_does_not(node: Any, tmp_path: Path) -> None:
    handle = completed(node)
    assert node.python(CUDA)[0] == 0
    folder = tmp_path / "broken"
    folder.mkdir()
    defines = ("-DSIMGPU_TEST", "-O0", *packages.DEFECTS["cuda"]["libcuda.so"])
    packages.compile_library("cuda.c", folder / "libcuda.so.1", "libcuda.so.1", VERSION, 13000, defines)
    with_it = {"LD_LIBRARY_PATH": f"{folder}:{node.libraries}"}
    assert node.python(CUDA, env=with_it) == [802, []]
    assert node.python(INIT, env=with_it) == 0
    os.close(handle)


def test_cuda_copies_and_refuses_to_launch(node: Any) -> None:
    handle = completed(node)
    answer = node.python(
        """
import ctypes, json
c = ctypes.CDLL('libcuda.so.1')
assert c.cuInit(0) == 0
ctx, ptr, mod, fn = (ctypes.c_void_p() for _ in range(4))
assert c.cuCtxSynchronize() == 201
assert c.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), 0) == 0 and c.cuCtxSetCurrent(ctx) == 0
assert c.cuMemAlloc_v2(ctypes.byref(ptr), ctypes.c_size_t(16)) == 0
out = ctypes.create_string_buffer(16)
assert c.cuMemcpyHtoD_v2(ptr, b'0123456789abcdef', ctypes.c_size_t(16)) == 0
assert c.cuMemcpyDtoH_v2(out, ptr, ctypes.c_size_t(16)) == 0
too_much = c.cuMemcpyHtoD_v2(ptr, b'0' * 17, ctypes.c_size_t(17))
huge = ctypes.c_void_p()
memory = c.cuMemAlloc_v2(ctypes.byref(huge), ctypes.c_size_t(1 << 40))
assert c.cuModuleLoadData(ctypes.byref(mod), b'.version 7.0') == 0
assert c.cuModuleGetFunction(ctypes.byref(fn), mod, b'kernel') == 0
launch = c.cuLaunchKernel(fn, 1, 1, 1, 1, 1, 1, 0, None, None, None)
name = ctypes.c_char_p()
c.cuGetErrorName(launch, ctypes.byref(name))
assert c.cuMemFree_v2(ptr) == 0
print(json.dumps([out.raw.decode(), too_much, memory, launch, name.value.decode(), c.cuMemFree_v2(ptr)]))
"""
    )
    assert answer == ["0123456789abcdef", 1, 2, 801, "CUDA_ERROR_NOT_SUPPORTED", 1]
    os.close(handle)


def test_both_libraries_carry_the_marker(node: Any) -> None:
    code = (
        "import ctypes, json; print(json.dumps([ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll("
        "ctypes.CDLL(f'lib{n}.so.1'), 'gpusmith_simulated'))).decode() for n in ('cuda', 'nvidia-ml')]))"
    )
    assert all("simulated" in text for text in node.python(code))


def test_shipped_libraries_take_no_path_from_the_environment(tmp_path: Path, libraries: Path) -> None:
    for source in ("nvml.c", "cuda.c"):
        packages.compile_library(source, tmp_path / "lib.so", "lib.so.1", "580.178.04", 13000)
        data = (tmp_path / "lib.so").read_bytes()
        assert b"SIMGPU_TEST_ROOT" not in data
        assert not {b"GLIBC_2.33", b"GLIBC_2.38"} & set(re.findall(rb"GLIBC_[0-9.]+", data))
    assert b"SIMGPU_TEST_ROOT" in (libraries / "libcuda.so.1").read_bytes()


PROBE = """
import json
from dataclasses import asdict
from gpusmith.probe.nvml import ask_library
print(json.dumps(asdict(ask_library("libnvidia-ml.so.1").nvml)["gpus"], default=sorted))
"""


def test_the_probe_knows_everything_of_a_simulated_gpu(node: Any) -> None:
    for row in node.python(PROBE):
        assert (row["unreadable"], row["unsupported"], row["error"]) == ({}, ["retired_pages"], None)
        assert (row["ecc_mode"], row["remap_failed"], row["mig_mode_pending"]) == (
            "enabled",
            False,
            "disabled",
        )
        assert row["processes"] == []


def test_the_probe_is_told_what_an_older_gpu_does_not_have(node: Any) -> None:
    node.change(arch="6", mig="0", fabric_nvml="0")
    row = node.python(PROBE)[0]
    assert {"row_remap", "mig_mode"} <= set(row["unsupported"])
    assert row["unreadable"] == {}
    assert (row["retired_pages"], row["retirement_pending"]) == (0, False)


def test_an_older_gpu_retires_pages(node: Any) -> None:
    node.change(arch="6", mig="0", fabric_nvml="0")
    state = State.load()
    state.gpus[1].update(pending="1", remapped="2")
    state.save()
    assert [(row["retired_pages"], row["retirement_pending"]) for row in node.python(PROBE)[:2]] == [
        (0, False),
        (3, True),
    ]


def test_a_lost_gpu_is_an_error_and_no_healthy_one(node: Any) -> None:
    state = State.load()
    state.gpus[1]["lost"] = "1"
    state.save()
    rows = node.python(PROBE)
    assert [bool(row["error"]) for row in rows] == [False, True, False, False]


@pytest.mark.parametrize("python", PYTHONS)
def test_the_zip_asks_the_library_with_every_python_that_nodes_have(node: Any, python: str) -> None:
    code = """
import json, sys
sys.path.insert(0, sys.argv[1])
from gpusmith.probe.collect import NVML_TIMEOUT_S, as_json
from gpusmith.probe.child import Child
from gpusmith.probe.nvml import ask_library
from gpusmith.probe.record import SCHEMA, Record
answer, problem = Child(lambda: ask_library("libnvidia-ml.so.1")).result(NVML_TIMEOUT_S)
assert answer is not None, problem
assert answer.simulated
print(as_json(Record(SCHEMA, nvml=answer.nvml)))
"""
    handle = os.memfd_create("probe", 0)
    os.write(handle, bundle())
    done = subprocess.run(
        [python, "-I", "-c", code, f"/proc/self/fd/{handle}"],
        capture_output=True, text=True, env=node.env(), timeout=60, pass_fds=(handle,), check=False,
    )  # fmt: skip
    os.close(handle)
    assert done.returncode == 0, done.stderr
    nvml = parse(json.loads(done.stdout)).nvml
    assert (nvml.init_code, nvml.driver_version, len(nvml.gpus)) == (0, "580.178.04", 4)
    for gpu in nvml.gpus:
        assert (gpu.unreadable, gpu.unsupported, gpu.error) == ({}, frozenset({"retired_pages"}), None)
        assert (gpu.fabric_state, gpu.memory_mib, gpu.processes) == ("not_started", 81559, ())
        assert (gpu.nvlinks, gpu.nvlink_mbps) == ((True,) * 18, (26562,) * 18)
