"""Plans of roles, from the options of one role and what the role adds to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.filter.plan import plan

from gpusmith.inventory.specs import load
from gpusmith.wanted.node import NodeWanted
from gpusmith.wanted.read import read, to_plain, variables_of
from tests.unit.hosts import Given

Plan = Callable[..., dict[str, Any]]
OTHER_NAMES = {
    "change_on_joined": "gpusmith_change_runtime_on_joined",
    "parameters": "nvidia_driver_module_parameters",
    "config": "kubernetes_node_kubelet_config",
    "authorities": "gpusmith_ca_certificates",
}
"""Variables by the name that tests give them."""


def variables_and_own(role: str, settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Variables of the inventory, and what the role adds."""
    known, variables, own = variables_of(), {}, {}
    for key, value in settings.items():
        name = OTHER_NAMES.get(key, f"{role}_{key}")
        if name in known:
            variables[name] = value
        elif key == "certificate" and value:
            variables |= {"nvidia_driver_build": "once_per_kernel"}
            variables |= {"nvidia_driver_build_signing": {"key": "/nowhere", "certificate": value}}
        elif key == "packages" and isinstance(value, Mapping):
            own[key] = list(value)
            variables[f"{role}_version"] = next(iter(value.values()), "")
        elif key != "node":
            own[key] = value
    return variables, own


def parts(role: str, settings: Mapping[str, Any]) -> tuple[NodeWanted, dict[str, Any]]:
    """What is wanted of a node, and what its role adds."""
    variables, own = variables_and_own(role, settings)
    return read(str(settings["node"]), Given(variables), load()), own


def planned(role: str, record: Mapping[str, Any], settings: Mapping[str, Any], **own: Any) -> dict[str, Any]:
    """The plan of a role."""
    wanted, more = parts(role.removesuffix("_removal"), settings)
    found: dict[str, Any] = plan(record, role, to_plain(wanted), more | own)
    return found


def driver_parts(
    settings: Mapping[str, Any], layouts: Mapping[str, Any]
) -> tuple[NodeWanted, dict[str, Any]]:
    """What is wanted of a node's driver, and what the role adds."""
    return parts("nvidia_driver", {**settings, "layouts": layouts})


def driver_plan(
    record: Mapping[str, Any], settings: Mapping[str, Any], layouts: Mapping[str, Any]
) -> dict[str, Any]:
    """The plan of role nvidia_driver."""
    return planned("nvidia_driver", record, settings, layouts=layouts)


def driver_removal(
    record: Mapping[str, Any], settings: Mapping[str, Any], layouts: Mapping[str, Any]
) -> dict[str, Any]:
    """What role nvidia_driver takes away."""
    return planned("nvidia_driver_removal", record, settings, layouts=layouts)


def of_role(role: str) -> Plan:
    """Its plan, from a record and settings."""
    return lambda record, settings: planned(role, record, settings)


host_baseline_plan = of_role("host_baseline")
containerd_plan = of_role("containerd")
toolkit_plan = of_role("nvidia_container_toolkit")
cuda_plan = of_role("cuda_toolkit")
kubelet_plan = of_role("kubernetes_node")
