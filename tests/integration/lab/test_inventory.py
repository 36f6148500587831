from __future__ import annotations

import dataclasses
import stat
from dataclasses import replace
from typing import Any

import pytest
import yaml
from gpulab import inventory
from gpulab.hosts import KUBELET_REASONS, Host
from gpulab.inventory import Contents
from gpulab.machines import planned
from gpulab.network import Plan
from gpulab.state import Places, Shape

from gpusmith.errors import ToolError
from gpusmith.inventory import specs

VERSIONS = {
    "kubernetes": "1.36.3",
    "containerd": "2.3.7",
    "pause": "3.10",
    "nvidia-container-toolkit": "1.20.1",
    "workload": "1",
    "pod-network": "1",
}


@pytest.fixture
def contents() -> Contents:
    shape = Shape(gpu_nodes=2, cpu_nodes=1)
    return Contents(
        shape, Plan.parse(shape.subnet), Host(cgroup_version=1), "-----BEGIN-----\nkey\n", VERSIONS
    )


@pytest.fixture
def written(contents: Contents, places: Places) -> dict[str, Any]:
    inventory.write(contents, planned(contents.shape, places), places)
    return {
        str(path.relative_to(places.inventory)): yaml.safe_load(path.read_text())
        for path in places.inventory.rglob("*.yml")
    }


def test_groups(written: dict[str, Any]) -> None:
    groups = written["hosts.yml"]["all"]["children"]
    assert {name: list(group["hosts"]) for name, group in groups.items()} == {
        "kube_control_plane": ["cp-1"],
        "gpu_nodes": ["gpu-1", "gpu-2"],
        "cpu_nodes": ["cpu-1"],
    }
    assert groups["gpu_nodes"]["hosts"]["gpu-2"] == {"ansible_host": "10.77.0.22"}


def test_machines_of_other_sizes_say_so_themselves(contents: Contents, places: Places) -> None:
    shape = replace(contents.shape, gpu_nodes=3, gpus=(8, 4))
    inventory.write(replace(contents, shape=shape), planned(shape, places), places)
    groups = yaml.safe_load((places.inventory / "hosts.yml").read_text())["all"]["children"]
    values = yaml.safe_load((places.inventory / "group_vars" / "gpu_nodes.yml").read_text())
    assert values["gpusmith_gpu_count"] == 8
    own = {name: row.get("gpusmith_gpu_count") for name, row in groups["gpu_nodes"]["hosts"].items()}
    assert own == {"gpu-1": None, "gpu-2": 4, "gpu-3": 4}


def test_other_operating_systems_have_their_own_repositories(contents: Contents, places: Places) -> None:
    shape = replace(
        contents.shape, gpu_nodes=3, os=("gpu-1=ubuntu-24.04", "gpu-2=rocky-9", "gpu-3=debian-13")
    )
    inventory.write(replace(contents, shape=shape), planned(shape, places), places)
    groups = yaml.safe_load((places.inventory / "hosts.yml").read_text())["all"]["children"]
    assert {name: list(group["hosts"]) for name, group in groups.items() if name.startswith("os_")} == {
        "os_ubuntu_24_04": ["gpu-1"],
        "os_rocky_9": ["gpu-2"],
    }
    # Of two groups on one level the one whose name sorts last wins.
    assert max(groups) == "os_ubuntu_24_04"
    read = {path.stem: yaml.safe_load(path.read_text()) for path in places.inventory.glob("group_vars/os_*")}
    ubuntu, rocky = read["os_ubuntu_24_04"], read["os_rocky_9"]
    assert ubuntu["nvidia_driver_repository"]["uris"] == ["http://10.77.0.2/ubuntu-24.04/cuda/"]
    assert ubuntu["kubernetes_node_repository"]["uris"] == ["http://10.77.0.2/apt/kubernetes/"]
    assert rocky["nvidia_container_toolkit_repository"] == {
        "type": "rpm",
        "uris": ["http://10.77.0.2/rocky-9/nvidia-container-toolkit/"],
        "signed": "metadata",
        "key": contents.apt_key,
    }


def test_another_kubernetes_has_repositories_of_its_own(contents: Contents, places: Places) -> None:
    shape = replace(contents.shape, kubernetes="1.35", os=("gpu-2=rocky-9",))
    inventory.write(replace(contents, shape=shape), planned(shape, places), places)
    read = {path.stem: yaml.safe_load(path.read_text()) for path in places.inventory.glob("group_vars/*")}
    assert read["all"]["kubernetes_node_repository"]["uris"] == ["http://10.77.0.2/kubernetes-1.35/deb/"]
    assert read["all"]["containerd_repository"]["uris"] == ["http://10.77.0.2/apt/containerd/"]
    rocky = read["os_rocky_9"]
    assert rocky["kubernetes_node_repository"]["uris"] == ["http://10.77.0.2/kubernetes-1.35/el9/"]
    assert rocky["kubernetes_node_repository"]["signed"] == "both"
    assert rocky["containerd_repository"]["uris"] == ["http://10.77.0.2/rocky-9/containerd/"]


def test_another_containerd_as_well(contents: Contents, places: Places) -> None:
    shape = replace(contents.shape, kubernetes="1.34", containerd="1.7", os=("gpu-2=rocky-10",))
    inventory.write(replace(contents, shape=shape), planned(shape, places), places)
    read = {path.stem: yaml.safe_load(path.read_text()) for path in places.inventory.glob("group_vars/*")}
    assert read["all"]["containerd_repository"]["uris"] == ["http://10.77.0.2/containerd-1.7/deb/"]
    rocky = read["os_rocky_10"]
    assert rocky["containerd_repository"]["uris"] == ["http://10.77.0.2/containerd-1.7/el10/"]
    assert rocky["containerd_repository"]["signed"] == "packages"
    assert rocky["kubernetes_node_repository"]["uris"] == ["http://10.77.0.2/kubernetes-1.34/el10/"]


def test_versions_stay_text(written: dict[str, Any]) -> None:
    for values in written.values():
        for name, value in values.items():
            if name.endswith("_version"):
                assert isinstance(value, str), name
    assert written["group_vars/gpu_nodes.yml"]["cuda_toolkit_default"] == "12.8"


def test_every_repository_has_the_lab_key(written: dict[str, Any]) -> None:
    values = written["group_vars/all.yml"]
    for role, name in inventory.REPOSITORIES.items():
        assert values[f"{role}_repository"] == {
            "uris": [f"http://10.77.0.2/apt/{name}/"],
            "suites": ["./"],
            "components": [],
            "key": "-----BEGIN-----\nkey\n",
        }


def test_host_keys_are_checked(written: dict[str, Any], places: Places) -> None:
    text = written["group_vars/all.yml"]["ansible_ssh_common_args"]
    assert "StrictHostKeyChecking=yes" in text
    assert f"UserKnownHostsFile={places.inventory / 'known_hosts'}" in text
    assert len((places.inventory / "known_hosts").read_text().splitlines()) == 4


def test_the_private_key_is_private(written: dict[str, Any], places: Places) -> None:
    assert written
    assert stat.S_IMODE((places.inventory / "id_ed25519").stat().st_mode) == 0o600


def test_simulation_is_said_of_gpu_machines(written: dict[str, Any]) -> None:
    values = written["group_vars/gpu_nodes.yml"]
    assert (values["gpusmith_simulated"], values["gpusmith_gpu_model"], values["gpusmith_gpu_count"]) == (
        True,
        "h100-sxm",
        4,
    )


def test_a_model_that_is_no_row_is_not_declared(contents: Contents) -> None:
    other = dataclasses.replace(
        contents, shape=dataclasses.replace(contents.shape, model="rtx-pro-6000@2bbf")
    )
    assert "gpusmith_gpu_model" not in inventory.gpu_vars(other)


def test_every_ignored_check_has_a_reason_and_only_on_cgroup_v1(contents: Contents, places: Places) -> None:
    entries = inventory.all_vars(contents, places)["kubernetes_node_ignored_preflight_errors"]
    assert [entry["name"] for entry in entries] == ["SystemVerification"]
    assert all(entry["reason"] for entry in entries)
    newer = dataclasses.replace(contents, host=Host(cgroup_version=2))
    values = inventory.all_vars(newer, places)
    assert values["kubernetes_node_ignored_preflight_errors"] == []
    assert "failCgroupV1" not in values["kubernetes_node_kubelet_config"]


def test_every_kubelet_setting_has_a_reason() -> None:
    assert set(Host(cgroup_version=1).kubelet_config()) == set(KUBELET_REASONS)


def test_a_version_that_artifacts_do_not_name_is_an_error(contents: Contents, places: Places) -> None:
    with pytest.raises(ToolError, match="'containerd'"):
        inventory.all_vars(dataclasses.replace(contents, versions={"etcd": "1"}), places)


def test_deadlines_are_shorter_than_the_roles_own(written: dict[str, Any]) -> None:
    for name, seconds in inventory.DEADLINES.items():
        assert written["group_vars/gpu_nodes.yml"][name] == seconds < specs.load().variables[name].default
