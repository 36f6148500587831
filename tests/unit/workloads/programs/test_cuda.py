"""The CUDA program and the one that holds a GPU, against libraries that are Python objects."""

from __future__ import annotations

import runpy
import time
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workloads.programs.fake_libraries import FakeCuda, FakeNvml


def test_uuid_is_written_as_nvml_does(uuids: list[str]) -> None:
    assert uuids[0] == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"


def test_simulated_gpu_refuses_the_launch_and_says_so(load: Any, uuids: list[str]) -> None:
    library = FakeCuda(simulated=True)
    result = load("run_cuda").work(library, FakeNvml(uuids))
    assert result["simulated"] is True
    assert result["not_executed"] == ["the kernel on the device", "load"]
    assert result["slowdowns"] == {uuid: {"reasons": 1, "looks": 1} for uuid in uuids}
    assert result["load_s"] == 0
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


def test_slowdowns_are_read_while_all_gpus_compute(
    load: Any, uuids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUSMITH_SIMULATED", "false")
    monkeypatch.setenv("GPUSMITH_LOAD_S", "0.05")
    cuda = FakeCuda(simulated=False)
    # Only the second GPU, and only for a moment: what was said once stays.
    nvml = FakeNvml(uuids, lambda gpu, look: 0x48 if (gpu, look) == (1, 4) else 4)
    result = load("run_cuda").work(cuda, nvml)
    assert result["slowdowns"][uuids[0]]["reasons"] == 4
    assert result["slowdowns"][uuids[1]]["reasons"] == 0x4C
    assert result["slowdowns"][uuids[0]]["looks"] >= 2
    first_look = cuda.calls.index("cuCtxSynchronize", cuda.calls.index("cuCtxSetCurrent"))
    assert cuda.calls[:first_look].count("cuLaunchKernel") == 2 + 2 * 4, (
        "all compute when the first one is asked"
    )
    assert cuda.memory == {}


def test_a_gpu_that_does_not_bear_load_fails(
    load: Any, uuids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUSMITH_SIMULATED", "false")
    monkeypatch.setenv("GPUSMITH_LOAD_S", "0.05")
    cuda = FakeCuda(simulated=False, under_load=719)
    with pytest.raises(
        load("gpu_driver").ProgramError, match="under load, cuLaunchKernel answers CUDA_ERROR_LAUNCH"
    ):
        load("run_cuda").work(cuda, FakeNvml(uuids))
    assert cuda.memory == {}


def test_slowdowns_that_cannot_be_read_are_said(load: Any, uuids: list[str]) -> None:
    result = load("run_cuda").work(FakeCuda(simulated=True), FakeNvml(uuids, code=3))
    assert result["slowdowns"] == {uuid: {"reasons": 0, "looks": 0, "code": 3} for uuid in uuids}


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


@pytest.mark.parametrize(("told", "stays"), [(None, 0.0), ("9", 9.0)])
def test_the_program_keeps_its_share_as_long_as_it_is_told(
    load: Any,
    uuids: list[str],
    programs: Path,
    monkeypatch: pytest.MonkeyPatch,
    told: str | None,
    stays: float,
) -> None:
    slept: list[float] = []
    if told:
        monkeypatch.setenv("GPUSMITH_HOLD_S", told)
    monkeypatch.setattr(load("gpu_driver"), "run", lambda *_: slept.append(-1))
    monkeypatch.setattr(time, "sleep", slept.append)
    runpy.run_path(str(programs / "run_cuda.py"), run_name="__main__")
    assert slept == [-1, stays], "after its result is told"


PART = "NVIDIA H100 80GB HBM3 MIG 3g.40gb"


def test_a_pod_with_a_mig_device_names_it(
    load: Any, uuids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUSMITH_GPUS", "1")
    mine = uuids[0].replace("GPU-", "MIG-")
    nvml = FakeNvml(["GPU-whole"], parts={3: mine})
    result = load("run_cuda").work(FakeCuda(simulated=True, name=PART, count=1), nvml)
    assert [row["uuid"] for row in result["devices"]] == [mine]
    assert result["slowdowns"].keys() == {"GPU-whole"}, "clocks are the GPU's"
    found = load("hold_gpu").work(FakeCuda(simulated=True, name=PART, count=1), nvml)
    assert (found["uuid"], found["gpu"], found["minor"]) == (mine, "GPU-whole", 0)


def test_a_mig_device_more_or_another_is_named(load: Any, uuids: list[str]) -> None:
    mine = uuids[0].replace("GPU-", "MIG-")
    for parts in ({0: mine, 1: "MIG-x"}, {0: "MIG-x"}, {}):
        with pytest.raises(load("gpu_driver").ProgramError, match="a pod with one GPU sees"):
            load("hold_gpu").work(
                FakeCuda(simulated=True, name=PART, count=1), FakeNvml(["GPU-whole"], parts=parts)
            )


# --- MPS -------------------------------------------------------------------------------------------------------------

CLIENT = {"GPUSMITH_MPS_SHARES": "4", "CUDA_MPS_PIPE_DIRECTORY": "/mps/nvidia.com/gpu.shared/pipe"}


def hold(load: Any, monkeypatch: pytest.MonkeyPatch, cuda: FakeCuda, **changes: str) -> Any:
    for name, value in {**CLIENT, **changes}.items():
        monkeypatch.setenv(name, value)
    uuid = "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
    return load("hold_gpu").work(cuda, FakeNvml([uuid]))


def test_a_pod_by_mps_has_a_context_and_no_more_than_its_share(
    load: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda = FakeCuda(simulated=True, count=1, limit=20 << 20)
    found = hold(load, monkeypatch, cuda)
    assert found["mps"] == {
        "pipe_directory": CLIENT["CUDA_MPS_PIPE_DIRECTORY"], "refused_mib": 21, "of_mib": 80
    }  # fmt: skip
    assert "cuCtxCreate_v2" in cuda.calls
    assert "cuCtxDestroy_v2" not in cuda.calls, "it keeps it while the others come"


def test_a_pod_that_is_no_client_or_not_limited_fails(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    free = FakeCuda(simulated=True, count=1)
    with pytest.raises(Exception, match="could have 21 MiB of its 80 MiB: MPS does not limit it"):
        hold(load, monkeypatch, free)
    assert not free.memory
    with pytest.raises(Exception, match="no CUDA_MPS_PIPE_DIRECTORY"):
        hold(load, monkeypatch, FakeCuda(simulated=True, count=1), CUDA_MPS_PIPE_DIRECTORY="")
    busy = FakeCuda(simulated=True, count=1)
    monkeypatch.setattr(busy, "do_cuCtxCreate_v2", lambda *_: 46)
    with pytest.raises(Exception, match="cuCtxCreate_v2 answers"):
        hold(load, monkeypatch, busy)
