"""Another lab: GPUs without NVSwitches, the driver as Debian packages it, and the roles' own tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.e2e.harness import Lab

pytestmark = pytest.mark.rare
NODE = "gpu-1"
DRIVER = "550.163.01"


def with_debian_packages(inventory: Path) -> None:
    """Take the driver from the lab's repository with Debian's packages."""
    shared, gpus = (inventory / "group_vars" / name for name in ("all.yml", "gpu_nodes.yml"))
    values = yaml.safe_load(shared.read_text())
    source = values["nvidia_driver_repository"]
    source["uris"] = [uri.replace("/apt/cuda/", "/apt/debian/") for uri in source["uris"]]
    shared.write_text(yaml.safe_dump(values))
    values = yaml.safe_load(gpus.read_text())
    values |= {"nvidia_driver_package_layout": "distribution", "nvidia_driver_version": DRIVER}
    gpus.write_text(yaml.safe_dump(values))


@pytest.fixture(scope="module")
def other_lab(lab: Lab, keep_lab: bool) -> Lab:
    """Three machines with one L40S each: the only change of the lab's shape. A lab that is kept keeps its own."""
    if not keep_lab:
        lab.gpulab("down")
        lab.up("--model", "l40s", "--gpu-nodes", "3", "--gpus", "1")
    return lab


@pytest.fixture(scope="module")
def molecule(other_lab: Lab) -> tuple[subprocess.Popen[bytes], Path]:
    """The roles' own tests on gpu-3, which no other test uses; they run beside the others of this file."""
    return other_lab.start("scripts/molecule", "test")


def test_debian_packages_on_another_model(
    other_lab: Lab, molecule: tuple[subprocess.Popen[bytes], Path], keep_lab: bool, tmp_path: Path
) -> None:
    if keep_lab:
        pytest.skip("E2E_KEEP_LAB: the lab keeps its machines")
    inventory = other_lab.copy_inventory(tmp_path / "inventory")
    with_debian_packages(inventory)
    first = other_lab.site("-l", NODE, inventory=inventory)
    assert first.status == 0, str(first)
    # Debian's alternatives: absolute links, which once kept nvidia-smi from pods.
    assert other_lab.on(NODE, "readlink -f /usr/bin/nvidia-smi") == "/usr/lib/nvidia/current/nvidia-smi"
    assert other_lab.on(NODE, "cat /sys/module/nvidia/version") == DRIVER
    second = other_lab.site("-l", NODE, inventory=inventory)
    assert second.status == 0, str(second)
    assert second.recap()[NODE]["changed"] == 0, str(second)


def test_molecule_scenario(molecule: tuple[subprocess.Popen[bytes], Path]) -> None:
    process, log = molecule
    status = process.wait(900)
    output = log.read_text(errors="replace")
    assert status == 0, "\n".join(output.splitlines()[-60:])
    assert "idempotence" in output.lower()
