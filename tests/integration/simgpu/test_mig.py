"""MIG as users of the libraries see it: pynvml, nvidia-smi and CUDA, with the simulated kernel behind them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpulab.simgpu import packages, rootfs
from simgpu import procfs
from simgpu.state import State

from gpusmith.paths import repo_root
from tests.integration.simgpu.test_libraries import CODE, CUDA, completed
from tests.unit.simgpu.conftest import PLACES

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may change settings")
Smi = Callable[..., tuple[int, str]]

HEAD = f"""
import ctypes, json, pynvml as n
{CODE}
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(min(1, n.nvmlDeviceGetCount() - 1))
def placements(id):
    count = ctypes.c_uint()
    n.nvmlDeviceGetGpuInstancePossiblePlacements(h, id, None, ctypes.byref(count))
    rows = (n.c_nvmlGpuInstancePlacement_t * count.value)()
    n.nvmlDeviceGetGpuInstancePossiblePlacements(h, id, rows, ctypes.byref(count))
    return [[row.start, row.size] for row in rows]
def gpu_instances(id):
    rows, count = (n.c_nvmlGpuInstance_t * 7)(), ctypes.c_uint()
    n.nvmlDeviceGetGpuInstances(h, id, rows, ctypes.byref(count))
    return [info(row) for row in rows[:count.value]]
def info(gi):
    row = n.nvmlGpuInstanceGetInfo(gi)
    return [row.id, row.profileId, row.placement.start, row.placement.size]
def create(id, start, size):
    place = n.c_nvmlGpuInstancePlacement_t(start, size)
    return n.nvmlDeviceCreateGpuInstanceWithPlacement(h, id, ctypes.byref(place))
def devices(gpu):
    rows = []
    for i in range(n.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        try:
            rows.append(n.nvmlDeviceGetMigDeviceHandleByIndex(gpu, i))
        except n.NVMLError_NotFound:
            pass
    return rows
"""


@pytest.fixture
def kernel_program(node: Any) -> None:
    """The simulated kernel's program, which the library starts, on the test's files; and nodes of the first capabilities."""
    program = node.root / "usr" / "lib" / "simgpu" / "simgpu"
    program.parent.mkdir(parents=True)
    python = rootfs() / "usr" / "lib" / "simgpu" / "python"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nfrom pathlib import Path\nsys.path.insert(0, {str(python)!r})\n"
        "from simgpu import cli, paths\n"
        f"for name, place in {PLACES!r}.items():\n    setattr(paths, name, Path({str(node.root)!r}) / place)\n"
        "sys.exit(cli.main(sys.argv[1:]))\n"
    )
    program.chmod(0o755)
    capabilities(node, *range(1, 4 * 135))


def capabilities(node: Any, *minors: int) -> None:
    folder: Path = node.root / "dev" / "nvidia-caps"
    folder.mkdir()
    for minor in minors:
        (folder / f"nvidia-cap{minor}").touch()


@pytest.fixture
def smi(node: Any, built: packages.Driver) -> Smi:
    def run(*words: str) -> tuple[int, str]:
        done = subprocess.run(
            [built.part("nvidia-smi"), *words], capture_output=True, text=True, env=node.env(), timeout=60
        )
        return done.returncode, done.stdout

    return run


@pytest.mark.usefixtures("kernel_program")
def test_a_gpu_is_divided_and_becomes_whole_again(node: Any) -> None:
    facts = node.python(
        HEAD
        + """
before = [n.nvmlDeviceGetMigMode(h), code(n.nvmlDeviceCreateGpuInstance, h, 9), code(gpu_instances, 9), len(devices(h))]
switched = [n.nvmlDeviceSetMigMode(h, 1), n.nvmlDeviceGetMigMode(h), n.nvmlDeviceGetMigMode(n.nvmlDeviceGetHandleByIndex(0))]
profiles = {}
for number in range(n.NVML_GPU_INSTANCE_PROFILE_COUNT):
    try:
        row, first = n.nvmlDeviceGetGpuInstanceProfileInfo(h, number), n.nvmlDeviceGetGpuInstanceProfileInfo(h, number, version=1)
        assert all(getattr(row, name) == getattr(first, name) for name, _ in first._fields_)
        profiles[number] = [row.id, row.name, row.sliceCount, row.instanceCount, row.memorySizeMB]
    except (n.NVMLError_NotSupported, n.NVMLError_InvalidArgument):
        pass
g = create(9, 4, 4)
ci = n.nvmlGpuInstanceGetComputeInstanceProfileInfo(g, n.NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE, 0)
wrong = [code(create, 9, 4, 4), code(create, 9, 2, 4), code(create, 9, 0, 3), code(create, 99, 0, 1),
    code(n.nvmlGpuInstanceGetComputeInstanceProfileInfo, g, 0, 0), code(n.nvmlDeviceSetMigMode, h, 2), len(devices(h))]
c = n.nvmlGpuInstanceCreateComputeInstance(g, ci.id)
again = n.nvmlComputeInstanceGetInfo(n.nvmlGpuInstanceGetComputeInstanceById(g, 0))
made = [info(g), gpu_instances(9), info(n.nvmlDeviceGetGpuInstanceById(h, 2)), code(n.nvmlDeviceGetGpuInstanceById, h, 1),
    [again.id, again.profileId, again.placement.start, again.placement.size, info(again.gpuInstance)], [ci.sliceCount, ci.name],
    code(n.nvmlGpuInstanceCreateComputeInstance, g, ci.id), code(n.nvmlGpuInstanceDestroy, g)]
d = devices(h)[0]
a, m = n.nvmlDeviceGetAttributes(d), n.nvmlDeviceGetMemoryInfo(d)
parent = n.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(d)
device = [n.nvmlDeviceGetName(d), n.nvmlDeviceGetIndex(d), n.nvmlDeviceGetGpuInstanceId(d), n.nvmlDeviceGetComputeInstanceId(d),
    [a.gpuInstanceSliceCount, a.computeInstanceSliceCount, a.memorySizeMB], [m.total >> 20, m.used],
    n.nvmlDeviceGetMinorNumber(parent),
    [n.nvmlDeviceIsMigDeviceHandle(x).value for x in (d, h)], code(n.nvmlDeviceGetAttributes, h),
    code(n.nvmlDeviceGetUtilizationRates, h), n.nvmlDeviceGetMemoryInfo(d, version=n.nvmlMemory_v2).total >> 20]
uuid = n.nvmlDeviceGetUUID(d)
assert n.nvmlDeviceGetUUID(n.nvmlDeviceGetHandleByUUID(uuid)) == uuid
busy = [n.nvmlDeviceSetMigMode(h, 0), n.nvmlDeviceGetMigMode(h)]
n.nvmlComputeInstanceDestroy(c)
gone = [code(n.nvmlDeviceGetUUID, d), code(n.nvmlDeviceGetHandleByUUID, uuid), code(n.nvmlComputeInstanceDestroy, c)]
n.nvmlGpuInstanceDestroy(g)
whole = [code(n.nvmlGpuInstanceGetInfo, g), gpu_instances(9), n.nvmlDeviceSetMigMode(h, 0), n.nvmlDeviceGetMigMode(h)]
print(json.dumps([before, switched, profiles, placements(9), placements(0), wrong, made, device, busy, gone, whole, uuid]))
"""
    )
    minor = int(State.load().gpus[1]["minor"])
    assert facts[:2] == [[[0, 0], 3, 3, 0], [0, [1, 1], [0, 0]]]
    assert facts[2] == {
        "0": [19, "MIG 1g.10gb", 1, 7, 10194],
        "1": [14, "MIG 2g.20gb", 2, 3, 20389],
        "2": [9, "MIG 3g.40gb", 3, 2, 40779],
        "3": [5, "MIG 4g.40gb", 4, 1, 40779],
        "4": [0, "MIG 7g.80gb", 7, 1, 81559],
        "7": [20, "MIG 1g.10gb+me", 1, 1, 10194],
        "9": [15, "MIG 1g.20gb", 1, 4, 20389],
    }
    assert facts[3:5] == [[[0, 4], [4, 4]], [[0, 8]]]
    assert facts[5] == [23, 2, 2, 2, 3, 2, 0]
    row = [2, 9, 4, 4]
    assert facts[6] == [row, [row], row, 6, [0, 2, 0, 3, row], [3, "MIG 3g.40gb"], 23, 19]
    name = "NVIDIA H100 80GB HBM3 MIG 3g.40gb"
    assert facts[7] == [name, 0, 2, 0, [3, 3, 40779], [40779, 0], minor, [1, 0], 3, 3, 40779]
    assert facts[8:11] == [[19, [1, 1]], [2, 6, 2], [2, [], 0, [0, 0]]]
    assert facts[11].startswith("MIG-")
    assert State.load().instances == []


LOOK = (
    HEAD
    + """
gpus = [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]
seen = [[n.nvmlDeviceGetUUID(d) for d in devices(g)] for g in gpus]
others = [code(n.nvmlDeviceGetHandleByUUID, uuid) for uuid in ALL]

print(json.dumps([seen, others, code(gpu_instances, 19), code(n.nvmlDeviceGetGpuInstanceById, h, 7), n.nvmlDeviceGetMigMode(h)]))
"""
)


@pytest.mark.usefixtures("kernel_program")
def test_a_container_sees_the_instance_that_it_is_given(node: Any, smi: Smi) -> None:
    """As the container toolkit gives it: the GPU's device, and those of both capabilities."""
    handle = completed(node)
    assert smi("-i", "1", "-mig", "1")[0] == 0
    assert smi("mig", "-cgi", "1g.10gb,1g.10gb,2g.20gb,3g.40gb", "-C")[0] == 23
    rows = sorted(State.load().instances, key=lambda row: int(row["gi"]))
    assert [row["gi"] for row in rows] == ["3", "11", "13"]
    uuids = [row["uuid"] for row in rows]
    look = f"ALL = {uuids!r}\n{LOOK}"
    whole = node.python(look)
    assert whole[:2] == [[[], uuids, [], []], [0, 0, 0]]
    assert len(node.python(CUDA)[1]) == 1, "of instances CUDA takes one"
    minor = int(rows[2]["minor"])
    node.devices(minor)
    assert node.python(look)[:4] == [[[]], [6, 6, 6], 4, 4], "the GPU alone gives none"
    assert node.python(CUDA) == [100, []]
    given = [procfs.capability_minor(minor, 13), procfs.capability_minor(minor, 13, 0)]
    capabilities(node, given[0])
    assert node.python(look)[0] == [[]], "both capabilities are needed"
    (node.root / "dev" / "nvidia-caps" / f"nvidia-cap{given[1]}").touch()
    assert node.python(look) == [[[uuids[2]]], [6, 6, 0], 4, 4, [1, 1]]
    gpu = State.load().gpus[1]["uuid"]
    assert smi("-L")[1].splitlines() == [
        f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: {gpu})",
        f"  MIG 1g.10gb     Device  0: (UUID: {uuids[2]})",
    ]
    assert node.python(CUDA) == [0, [uuids[2].removeprefix("MIG-").replace("-", "")]]
    for value, count in ((uuids[2], 1), ("0", 1), (uuids[0], 0), (gpu, 0)):
        assert len(node.python(CUDA, {"CUDA_VISIBLE_DEVICES": value})[1]) == count, value
    programs = str(repo_root() / "validation" / "workloads" / "programs")
    for program, gpu_of in (("hold_gpu", "found['gpu']"), ("run_cuda", "list(found['slowdowns'])[0]")):
        said = node.python(
            f"""
import json, os, sys
sys.path.insert(0, {programs!r})
os.environ["GPUSMITH_SIMULATED"] = "true"
import {program}
found = {program}.work()
print(json.dumps([found.get("uuid") or found["devices"][0]["uuid"], {gpu_of}]))
"""
        )
        assert said == [uuids[2], gpu], program
    size = node.python(
        """
import ctypes, glob, json, os
c = ctypes.CDLL('libcuda.so.1')
assert c.cuInit(0) == 0
size, name = ctypes.c_size_t(), ctypes.create_string_buffer(96)
assert c.cuDeviceTotalMem_v2(ctypes.byref(size), 0) == 0 and c.cuDeviceGetName(name, 96, 0) == 0
held = sorted(os.path.basename(os.path.realpath(fd)) for fd in glob.glob('/proc/self/fd/*'))
print(json.dumps([size.value >> 20, name.value.decode(), [one for one in held if one.startswith('nvidia-cap')]]))
"""
    )
    assert size == [10194, "NVIDIA H100 80GB HBM3 MIG 1g.10gb", [f"nvidia-cap{number}" for number in given]]
    os.close(handle)


@pytest.mark.usefixtures("kernel_program")
def test_nvidia_smi_shows_and_spoils_a_layout(node: Any, smi: Smi) -> None:
    assert smi("mig", "-lgi") == (6, "No MIG-enabled devices found.\n")
    code, text = smi("-mig", "1", "-i", "1")
    assert (code, "Enabled MIG Mode for GPU 0000" in text) == (0, True)
    assert smi("mig", "-lgi") == (6, "No GPU instances found: Not Found\n")
    code, text = smi("mig", "-i", "1", "-cgi", "9,MIG 3g.40gb", "-C")
    assert (code, text.splitlines()) == (
        0,
        [
            "Successfully created GPU instance ID  2 on GPU  1 using profile MIG 3g.40gb (ID  9)",
            "Successfully created compute instance ID  0 on GPU  1 GPU instance ID  2 using profile MIG 3g.40gb (ID  2)",
            "Successfully created GPU instance ID  1 on GPU  1 using profile MIG 3g.40gb (ID  9)",
            "Successfully created compute instance ID  0 on GPU  1 GPU instance ID  1 using profile MIG 3g.40gb (ID  2)",
        ],
    )
    assert [line.split()[1:-1] for line in smi("mig", "-lgi")[1].splitlines()[1:]] == [
        ["1", "MIG", "3g.40gb", "9", "1", "0:4"],
        ["1", "MIG", "3g.40gb", "9", "2", "4:4"],
    ]
    profiles = [line.split() for line in smi("mig", "-lgip")[1].splitlines()[1:]]
    assert [row[3:6] for row in profiles if row[3] in ("3g.40gb", "1g.10gb")] == [
        ["1g.10gb", "19", "7"],
        ["3g.40gb", "9", "2"],
    ]
    lines = smi("-L")[1].splitlines()
    assert [line.split(" (")[0] for line in lines[2:4]] == [
        "  MIG 3g.40gb     Device  0:",
        "  MIG 3g.40gb     Device  1:",
    ]
    assert len(lines) == 6
    assert "MIG Mode Pending                      : Enabled" in smi("-q", "-i", "1")[1]
    assert smi("--query-gpu=mig.mode.current", "--format=csv,noheader")[1].split() == [
        "Disabled", "Enabled", "Disabled", "Disabled",
    ]  # fmt: skip
    assert smi("mig", "-cgi", "19") == (
        23,
        (
            "Unable to create a GPU instance on GPU  1 using profile 19: Insufficient Resources\n"
            "Failed to create GPU instances: Insufficient Resources\n"
        ),
    )
    code, text = smi("mig", "-dgi")
    assert (code, text.splitlines()[-1]) == (19, "Failed to destroy GPU instances: In use by another client")
    assert "MIG mode is in pending disable state" in smi("-mig", "0", "-i", "1")[1]
    assert smi("mig", "-dci", "-gi", "2") == (
        0,
        "Successfully destroyed compute instance ID  0 from GPU  1 GPU instance ID  2\n",
    )
    assert smi("mig", "-dgi", "-gi", "2") == (0, "Successfully destroyed GPU instance ID  2 from GPU  1\n")
    assert smi("mig", "-dci")[0] == smi("mig", "-dgi")[0] == 0
    assert smi("-mig", "0", "-i", "1")[1].startswith("Disabled MIG Mode for GPU 0000")
    assert State.load().instances == []
