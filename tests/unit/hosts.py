"""Hosts as an inventory describes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jinja2.nativetypes import NativeEnvironment

from gpusmith.errors import InputError
from gpusmith.inventory.specs import load
from gpusmith.inventory.values import truth
from gpusmith.inventory.variables import check_hosts
from gpusmith.preflight.words import Wanted
from gpusmith.wanted import inventory
from gpusmith.wanted.inventory import Inventory, nodes_of
from gpusmith.wanted.node import NodeWanted
from gpusmith.wanted.read import read

VERSION = "580.178.04"
UUIDS = [f"GPU-0000000{n}-1111-2222-3333-44444444444{n}" for n in range(4)]


def host_variables(**changes: Any) -> dict[str, Any]:
    """What ansible-inventory says of a lab node; None takes a variable out."""
    values: dict[str, Any] = {
        "ansible_host": "192.0.2.1",
        "gpusmith_simulated": True,
        "gpusmith_gpu_model": "h100-sxm",
        "gpusmith_gpu_count": 4,
        "gpusmith_kubeconfig": "/nowhere/kubeconfig",
        "nvidia_driver_version": VERSION,
        "nvidia_driver_extra_modules": ["nvidia_peermem"],
        "nvidia_driver_module_parameters": {"NVreg_EnableStreamMemOPs": 1},
        "containerd_version": "2.3.7",
        "nvidia_container_toolkit_version": "1.20.1",
        "kubernetes_node_version": "1.36.3",
        "validation_images": {
            "cuda": "registry.example/pytorch:1",
            "pytorch": "registry.example/pytorch:1",
            "tensorflow": "registry.example/tensorflow:1",
        },
        "validation_timeout_pod_s": 5,
    }
    values.update(changes)
    return {key: value for key, value in values.items() if value is not None}


class Given:
    """Variables of a host without templates; those of the specs' defaults are filled in as Ansible does it."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def written(self, name: str) -> Any:
        """A value."""
        return self._values.get(name)

    def filled(self, value: Any, trusted: bool = False) -> Any:
        """A default with its templates filled in; others are left, as those that Ansible cannot fill in."""
        if not trusted:
            return value
        environment = NativeEnvironment()
        environment.filters["gpusmith.gpu.truth"] = truth
        return environment.from_string(value).render({"gpusmith_proxy": {}, **self._values})


def wanted(name: str = "gpu-1", **values: Any) -> NodeWanted:
    """What an inventory with exactly these variables wants of a host, refused as the suite refuses it."""
    for refusal in check_hosts({name: values}, load()):
        raise InputError(refusal.message, refusal.hint)
    return read(name, Given(values), load())


def run(driver_only: bool = False, joins: bool = True, **values: Any) -> Wanted:
    """What a run is to make of a host with exactly these variables, whether or not the suite would take them."""
    return Wanted(read("gpu-1", Given(values), load()), driver_only, joins)


def build(
    tree: Mapping[str, Any], rows: Mapping[str, Mapping[str, Any]], source: str, limit: str
) -> Inventory:
    """An inventory, from variables by host."""
    hosts = {name: wanted(name, **rows.get(name, {})) for name in nodes_of(tree, source, limit)}
    return inventory.build({**tree, "_meta": {"hostvars": rows}}, hosts, source, limit)


def make_host(name: str = "gpu-1", **changes: Any) -> NodeWanted:
    """A host of an inventory."""
    return build({"gpu_nodes": {"hosts": [name]}}, {name: host_variables(**changes)}, "inventory", "").hosts[
        name
    ]
