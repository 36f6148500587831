"""Models that do not exist, and hosts that are one machine, are named before a machine is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpusmith.data import models
from gpusmith.inventory.specs import load
from gpusmith.inventory.variables import check_hosts

ROW = {"name": "NVIDIA H100 64GB", "pci_device_id": "2323", "memory_mib": 65247, "architecture": "hopper"}


def told(rows: dict[str, dict[str, Any]]) -> list[str]:
    return [str(row) for row in check_hosts(rows, load())]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("H100", "'h100-sxm', 'h100-pcie', 'h100-nvl'"),
        ("h100_sxm", "'h100-sxm'"),
        ("NVIDIA-L40S", "'l40s'"),
        ("h100-smx", "'h100-sxm'"),
        ("A100-SXM", "'a100-sxm-80', 'a100-sxm-40'"),
    ],
)
def test_a_name_that_means_a_row_and_is_none(name: str, meant: str) -> None:
    (message,) = told({host: {"gpusmith_gpu_model": name} for host in ("a", "b")})
    assert message == (
        f"Hosts 'a', 'b': 'gpusmith_gpu_model' is '{name}', which is no row of data/gpus.yml. Did you mean {meant}?"
    )


@pytest.mark.parametrize("name", [*models.load(), "ours", "h100-96gb", "rtx-4090", "{{ model }}", None])
def test_rows_and_names_of_a_sites_own_are_fine(name: str | None) -> None:
    assert told({"a": {"gpusmith_gpu_model": name}}) == []


def test_a_row_of_the_inventory_is_a_name_of_its_own() -> None:
    row = {"name": "NVIDIA H100 SXM", "pci_device_id": "0xfff0", "architecture": "hopper", "memory_mib": 1}
    of_site = {"gpusmith_gpu_model": "h100-smx", "gpusmith_gpu_models": {"h100-smx": row}}
    (message,) = told({"a": of_site, "b": {"gpusmith_gpu_model": "h100-smx"}})
    assert message.startswith("Host 'b': ")


@pytest.mark.parametrize(
    "name",
    [
        *(
            "a100-sxm-64",
            "a800-sxm-80",
            "h20-sxm",
            "h800-pcie",
            "v100s-pcie-32",
            "v100-sxm3-32",
            "p100-pcie-16",
        ),
        *("rtx-4000-ada", "rtx-pro-5000", "b200-nvl", "gb300"),
    ],
)
def test_another_product_is_no_typing_error(name: str) -> None:
    assert told({"a": {"gpusmith_gpu_model": name}}) == []


@pytest.mark.parametrize("rows", [{"h100": ROW, "other": ROW}, "{{ rows_of_ours }}"])
def test_a_row_of_the_inventory_is_a_model(rows: object) -> None:
    assert told({"a": {"gpusmith_gpu_model": "h100", "gpusmith_gpu_models": rows}}) == []


@pytest.mark.parametrize(
    ("first", "second", "one"),
    [
        ({}, {}, True),
        ({"ansible_port": 22}, {}, True),
        ({"ansible_port": 22}, {"ansible_port": 2222}, False),
        ({"ansible_ssh_port": 2201}, {"ansible_ssh_port": 2202}, False),
        ({"ansible_ssh_port": 2201}, {"ansible_port": 2201}, True),
        ({"ansible_ssh_host": "192.0.2.3"}, {"ansible_ssh_host": "192.0.2.4"}, False),
        ({"ansible_host": None, "ansible_ssh_host": "192.0.2.3"}, {"ansible_ssh_host": "192.0.2.3"}, True),
        ({"ansible_ssh_common_args": "-J a"}, {"ansible_ssh_common_args": "-J b"}, False),
        ({"ansible_ssh_args": "-J a"}, {"ansible_ssh_args": "-J b"}, False),
        ({"ansible_user": "me@root@gpu-1"}, {"ansible_user": "me@root@gpu-2"}, False),
        ({"ansible_connection": "ssh"}, {}, True),
        ({"ansible_connection": "local"}, {"ansible_connection": "local"}, False),
        ({"ansible_host": "{{ address }}"}, {"ansible_host": "{{ address }}"}, False),
        ({}, {"ansible_host": "192.0.2.2"}, False),
        ({"ansible_host": "b"}, {"ansible_host": None}, True),
    ],
)
def test_hosts_that_are_one_machine(first: dict[str, Any], second: dict[str, Any], one: bool) -> None:
    here = {"ansible_host": "192.0.2.1"}
    found = told({"a": {**here, **first}, "b": {**here, **second}, "c": {"ansible_host": "192.0.2.9"}})
    assert [message.partition(":")[0] for message in found] == (["Hosts 'a', 'b'"] if one else [])


def test_keys_of_ssh_are_files_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "key").touch()
    for name in ("ansible_ssh_private_key_file", "ansible_private_key_file"):
        assert told({"a": {name: str(tmp_path / "key")}}) == []
        (message,) = told({"a": {name: str(tmp_path / "few")}})
        assert message.startswith(f"Host 'a': '{name}' names the file '{tmp_path}/few', which does not exist")
