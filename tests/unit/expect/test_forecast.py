"""What check mode tells of a role, from its plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpusmith.expect import forecast
from tests.faults import FAULTS
from tests.unit.expect.converged import (
    DRIVER_FILES,
    KUBELET_FILE,
    NODE,
    ORDER_FILE,
    PLANS,
    SETTINGS,
    TOOLKIT_FILES,
    Record,
    converged_record,
)
from tests.unit.expect.role_plans import cuda_plan, toolkit_plan

CUDA: Callable[[Record], dict[str, Any]] = lambda record: cuda_plan(  # noqa: E731
    record, {"node": NODE, "versions": ["12.8"], "default": "12.8"}
)


def bare_record() -> Record:
    """A machine on which nothing was installed yet, as far as roles look."""
    record = converged_record()
    record["packages"], record["managed_files"] = {}, {}
    record["module"].update(installed_version=None, loaded_version=None, flavour=None)
    record["kubernetes"]["joined"] = False
    for name, unit in record["services"].items():
        if not name.startswith("systemd-"):
            unit.update(active="inactive", enabled="not-found", started_unix=None)
    record["cuda"] = {"versions": [], "default": None}
    return record


@pytest.mark.parametrize("role", PLANS)
def test_nothing_is_foretold_of_a_converged_node(role: str) -> None:
    assert forecast.of_role(role, PLANS[role](converged_record())) == {"changes": {}, "unpredictable": []}


def test_a_bare_machine_is_foretold() -> None:
    record = bare_record()
    told = {role: forecast.of_role(role, plan(record)) for role, plan in PLANS.items()}
    assert told["nvidia_driver"]["changes"] == {
        "files": [*DRIVER_FILES],
        "units": [
            "gpusmith-nvidia-load.service",
            "nvidia-persistenced.service",
            "nvidia-fabricmanager.service",
        ],
    }
    assert "reboot" in told["nvidia_driver"]["unpredictable"][0]
    assert told["containerd"]["changes"]["units"] == ["containerd.service"]
    assert "/etc/containerd/conf.d/50-gpusmith.toml" in told["containerd"]["changes"]["files"]
    # The file comes with the package.
    assert "'/etc/containerd/config.toml'" in told["containerd"]["unpredictable"][0]
    toolkit = told["nvidia_container_toolkit"]["changes"]
    assert toolkit["files"] == [*TOOLKIT_FILES, "/etc/containerd/conf.d/60-gpusmith-nvidia.toml"]
    assert toolkit["units"] == ["containerd.service", "gpusmith-gpu-devices.service"]
    assert told["kubernetes_node"]["changes"] == {
        "files": [*KUBELET_FILE, *ORDER_FILE],
        "units": ["kubelet.service"],
        "taints": ["gpusmith.io/unvalidated:NoSchedule, until the node is validated"],
        "more": ["joins the cluster"],
    }
    assert "kubeadm" in told["kubernetes_node"]["unpredictable"][0]
    cuda = forecast.of_role("cuda_toolkit", CUDA(record))
    assert cuda["changes"] == {"more": ["'/usr/local/cuda' leads to no CUDA toolkit, wanted is 12.8"]}


@pytest.mark.parametrize(
    ("there", "spec", "told"),
    [
        (False, "/var/run/cdi/nvidia.yaml", ["/var/run/cdi/nvidia.yaml"]),
        (True, "/etc/cdi/nvidia.yaml", ["/etc/cdi/nvidia.yaml"]),
        # It is written anew, and says the same.
        (True, "/var/run/cdi/nvidia.yaml", []),
    ],
    ids=["none yet", "another place", "the same"],
)
def test_the_specification_that_the_toolkits_unit_writes_is_foretold(
    there: bool, spec: str, told: list[str]
) -> None:
    """No file of the role's own says what is in it; below /etc it outlives a boot."""
    record = converged_record()
    unit = "/etc/systemd/system/gpusmith-gpu-devices.service"
    record["managed_files"].pop(unit)
    if not there:
        record["cdi"]["specs"] = []
    settings = {**SETTINGS["nvidia_container_toolkit"], "cdi_spec": spec}
    changes = forecast.of_role("nvidia_container_toolkit", toolkit_plan(record, settings))["changes"]
    assert changes["files"] == [unit, *told]


def test_one_difference_is_foretold_alone() -> None:
    record = converged_record()
    record["managed_files"].pop(next(iter(KUBELET_FILE)))
    told = {role: forecast.of_role(role, plan(record)) for role, plan in PLANS.items()}
    assert {role: found for role, found in told.items() if found["changes"]} == {
        "kubernetes_node": {
            "changes": {"files": list(KUBELET_FILE), "units": ["kubelet.service"]},
            "unpredictable": [],
        }
    }


@pytest.mark.parametrize("fault", FAULTS)
def test_every_plan_can_be_foretold(fault: str) -> None:
    record = converged_record()
    FAULTS[fault].breaks(record)
    for role, plan in PLANS.items():
        forecast.of_role(role, plan(record))


@pytest.mark.parametrize(
    ("joined", "says"), [(True, "somebody drains and reboots"), (False, "gpusmith_reboot")]
)
def test_nobody_is_told_that_a_node_that_serves_is_rebooted(joined: bool, says: str) -> None:
    record = converged_record()
    record["kubernetes"]["joined"] = joined
    record["module"]["loaded_version"] = "570.1.2"
    (told,) = forecast.of_role("nvidia_driver", PLANS["nvidia_driver"](record))["changes"]["more"]
    assert says in told
