"""The program that travels, on simulated GPUs: from whole ones to instances, from those to others, and back."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from simgpu.state import State

from gpusmith.node import bundle
from tests.integration.partition.conftest import Divided
from tests.integration.pythons import PYTHONS

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may change settings")
HALVES = [(0, "9", "0"), (0, "9", "4"), (1, "9", "0"), (1, "9", "4")]
ON = "MIG mode of GPU is switched on"
OFF = "MIG mode of GPU is switched off"
HALVED = "GPU is divided into 2 MIG instances 3g.40gb"


def test_whole_gpus_are_divided_divided_otherwise_and_whole_again(divided: Divided) -> None:
    assert divided.says() == [], "without a file they stay whole"
    divided.write("3g.40gb")
    planned = [ON, HALVED] * 2
    assert divided.says("--check") == planned
    assert (divided.modes(), divided.instances()) == (["00", "00"], [])
    assert divided.says() == planned
    assert (divided.modes(), divided.instances()) == (["11", "11"], HALVES)
    assert divided.says() == divided.says("--check") == []

    divided.write("1g.10gb")
    assert (
        divided.says()
        == ["2 MIG instances of GPU are removed", "GPU is divided into 7 MIG instances 1g.10gb"] * 2
    )
    assert divided.instances() == [(gpu, "19", str(start)) for gpu in (0, 1) for start in range(7)]

    divided.file.unlink()
    assert divided.says() == ["7 MIG instances of GPU are removed", OFF] * 2
    assert (divided.modes(), State.load().instances) == (["00", "00"], [])
    assert divided.says() == []


REMOVED = """
import json, pynvml as n
from gpusmith.probe import nvml
nvml.load(library.find_libraries()[0])
n.nvmlInit()
g = gpu.Gpu(1).instances()[0][1]
n.nvmlComputeInstanceDestroy(gpu._compute_instances(g)[0])
if %r:
    n.nvmlGpuInstanceDestroy(g)
print(json.dumps(0))
"""


@pytest.mark.parametrize("whole", [True, False], ids=["instance", "compute instance"])
def test_an_instance_that_somebody_removed_is_made_again_and_other_gpus_stay(
    divided: Divided, whole: bool
) -> None:
    divided.write("3g.40gb")
    divided.says()
    before = divided.uuids(0)
    assert divided.python(REMOVED % whole) == (0, 0)
    assert len(divided.instances()) == 3
    left = "1 MIG instance of GPU is removed" if whole else "2 MIG instances of GPU are removed"
    with divided.held(0):
        assert divided.says() == [left, HALVED]
    assert divided.instances() == HALVES
    assert before == divided.uuids(0)


def test_a_gpu_that_is_in_use_is_named_with_its_holder(divided: Divided) -> None:
    divided.write("3g.40gb")
    with divided.held(1) as pid:
        status, result = divided.run()
    pci = divided.gpus()[1]["pci"]
    assert status == 1
    assert f"{pci}) cannot be switched on; NVML says: In use by another client." in result["error"]
    assert f"process {pid} " in result["hint"]
    assert "End this, and run again." in result["hint"]
    assert result["in_use"]
    # What was done before stays, and the next run goes on.
    assert (divided.modes(), len(result["done"])) == (["11", "00"], 2)
    assert divided.says() == [ON, HALVED]


def test_gpus_that_the_inventory_leaves_out_are_left_alone(divided: Divided) -> None:
    pci = divided.gpus()[0]["pci"]
    with divided.held(0):
        divided.write("3g.40gb", ignored=[pci.upper()])
        assert divided.says() == [ON, HALVED]
        assert divided.modes() == ["00", "11"]
        divided.write("", ignored=[pci])
        assert divided.says() == ["2 MIG instances of GPU are removed", OFF]


def test_a_layout_of_another_model_is_refused(divided: Divided) -> None:
    rows = {
        "schema": "gpusmith.gpu-layout/1",
        "profile": "2g.24gb-me",
        "nvml": "2_SLICE_NO_ME",
        "starts": [0],
    }
    divided.file.write_text(json.dumps(rows))
    status, result = divided.run()
    assert (status, "has no MIG profile '2g.24gb-me'" in result["error"]) == (1, True)
    assert "gpusmith_gpu_model" in result["hint"]
    divided.file.write_text(json.dumps({**rows, "nvml": "3_SLICE", "starts": [1]}))
    status, result = divided.run()
    assert (
        "has no place for an instance 2g.24gb-me at memory slice 1; by NVML it has 0, 4." in result["error"]
    )


def test_a_file_that_cannot_be_read_changes_nothing(divided: Divided) -> None:
    divided.file.write_text("{}")
    status, result = divided.run()
    assert (status, result["changed"]) == (1, False)
    assert f"'{divided.file}' cannot be read: it does not have schema" in result["error"]


@pytest.mark.parametrize("machine", ["a100-sxm-80"], indirect=True)
def test_ampere_is_reset_for_a_mode_that_waits(divided: Divided) -> None:
    divided.write("3g.40gb")
    with divided.held(1) as pid:
        status, result = divided.run()
        assert (status, f"process {pid} " in result["hint"]) == (1, True)
        assert divided.modes() == ["11", "01"]
        status, result = divided.run()
        assert (status, "nvidia-smi --gpu-reset -i 0000:" in result["error"]) == (1, True)
        assert "In use by another client" in result["error"]
        assert f"process {pid} " in result["hint"]
        assert result["hint"].endswith("Reboot the machine; the change goes on at its boot.")
    assert divided.says() == ["GPU is reset", ON, HALVED]
    assert (divided.modes(), len(divided.instances())) == (["11", "11"], 4)


@pytest.mark.parametrize("machine", ["t4"], indirect=True)
def test_gpus_without_mig_stay_whole_and_are_not_divided(divided: Divided) -> None:
    assert divided.says() == []
    divided.file.write_text(
        json.dumps(
            {"schema": "gpusmith.gpu-layout/1", "profile": "3g.40gb", "nvml": "3_SLICE", "starts": [0]}
        )
    )
    status, result = divided.run()
    assert (status, "NVML says that it has no MIG mode" in result["error"]) == (1, True)


@pytest.mark.parametrize("python", PYTHONS)
def test_any_python_of_a_node_runs_it(python: str, tmp_path: Path) -> None:
    program, file = tmp_path / "gpu-layout.pyz", tmp_path / "gpu-layout.json"
    program.write_bytes(bundle.partition())
    command = [python, "-I", "-S", str(program), "--file", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, json.loads(done.stdout)["changed"], done.stderr) == (0, False, "")
    file.write_text(
        '{"schema": "gpusmith.gpu-layout/1", "profile": "3g.40gb", "nvml": "3_SLICE", "starts": [0]}'
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert json.loads(done.stdout)["error"] == "NVML's library is not on this machine."


ASKED = """
import json
from gpusmith.probe import nvml
from dataclasses import asdict
gpus = nvml.ask_library(library.find_libraries()[0]).nvml.gpus
print(json.dumps([[row.unreadable.get("instances"), row.instances and [asdict(one) for one in row.instances]] for row in gpus]))
"""


def test_the_probe_tells_the_instances(divided: Divided) -> None:
    assert divided.python(ASKED) == (0, [[None, None]] * 2), "they are whole"
    divided.write("3g.40gb", ignored=[divided.gpus()[0]["pci"]])
    divided.says()
    whole, seen = divided.python(ASKED)[1]
    assert whole == [None, None]
    assert [row.pop("uuid") for row in seen[1]] == [
        row["uuid"] for row in sorted(State.load().instances, key=lambda row: row["start"])
    ]
    assert seen == [
        None,
        [
            {"gpu_instance": number, "profile": "3_SLICE", "start": start, "size": 4}
            for number, start in ((1, 0), (2, 4))
        ],
    ]
    divided.python(REMOVED % False)
    assert [row["uuid"] is None for row in divided.python(ASKED)[1][1][1]] == [True, False]
