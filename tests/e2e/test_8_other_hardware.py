"""Another kind of machine: a GPU without NVSwitches, and the driver as Debian packages it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.e2e.harness import Lab

DRIVER = "550.163.01"


def with_debian_packages(inventory: Path) -> None:
    """Take the driver from the lab's repository with Debian's packages."""
    shared, gpus = (inventory / "group_vars" / name for name in ("all.yml", "gpu_nodes.yml"))
    values = yaml.safe_load(shared.read_text())
    source = values["nvidia_driver_repository"]
    source["uris"] = [uri.replace("/apt/cuda/", "/apt/debian/") for uri in source["uris"]]
    shared.write_text(yaml.safe_dump(values))
    values = yaml.safe_load(gpus.read_text())
    values |= {"nvidia_driver_package_layout": "debian", "nvidia_driver_version": DRIVER}
    gpus.write_text(yaml.safe_dump(values))


def test_debian_packages_on_another_model(bare_lab: Lab, keep_lab: bool, tmp_path: Path) -> None:
    if keep_lab:
        pytest.skip("E2E_KEEP_LAB: the lab keeps its machines")
    bare_lab.gpulab("down")
    bare_lab.up("--model", "l40s", "--gpu-nodes", "1", "--gpus", "1")
    inventory = bare_lab.copy_inventory(tmp_path / "inventory")
    with_debian_packages(inventory)
    first = bare_lab.site(inventory=inventory)
    assert first.status == 0, str(first)
    # Debian's alternatives: absolute links, which once kept nvidia-smi from pods.
    assert bare_lab.on("gpu-1", "readlink -f /usr/bin/nvidia-smi") == "/usr/lib/nvidia/current/nvidia-smi"
    assert bare_lab.on("gpu-1", "cat /sys/module/nvidia/version") == DRIVER
    second = bare_lab.site(inventory=inventory)
    assert second.status == 0, str(second)
    assert second.recap()["gpu-1"]["changed"] == 0, str(second)
