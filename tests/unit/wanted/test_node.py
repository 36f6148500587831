"""Hosts: what the inventory says of them, with the defaults of the specs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusmith.errors import InputError
from gpusmith.inventory.specs import load
from gpusmith.wanted.node import CONTAINERD
from gpusmith.wanted.read import from_plain, to_plain, variables_of

OWNED = ("nvidia_driver", "containerd", "nvidia_container_toolkit", "kubernetes_node")


def test_what_the_inventory_leaves_out_has_the_default_of_the_spec(host: Callable[..., Any]) -> None:
    known, plain = load().variables, host(validation_timeout_pod_s=None)
    assert plain.baseline.swap_off
    assert list(plain.baseline.modules) == known["host_baseline_modules"].default
    assert plain.baseline.sysctl == known["host_baseline_sysctl"].default
    assert [row["key"] for row in plain.kubernetes.taints] == ["nvidia.com/gpu"]
    assert host(kubernetes_node_owner="existing").kubernetes.taints == ()
    assert plain.validation.timeout_pod_s == known["validation_timeout_pod_s"].default
    assert plain.operands.namespace == known["gpu_operands_namespace"].default
    assert plain.operands.ours == ("nvidia-device-plugin", "gpu-feature-discovery", "node-feature-discovery")
    assert plain.node_name == "gpu-1"


def test_every_field_is_a_declared_variable() -> None:
    assert set(variables_of()) <= set(load().variables)


def test_operands_of_somebody_else_are_not_ours(host: Callable[..., Any]) -> None:
    assert host(gpu_operands_device_plugin="existing").operands.ours == (
        "gpu-feature-discovery",
        "node-feature-discovery",
    )


def test_of_a_part_of_somebody_else_nothing_is_wanted(host: Callable[..., Any]) -> None:
    ours, plain = host(), host(**{f"{role}_owner": "existing" for role in OWNED})
    assert all(ours.manages(role) and not plain.manages(role) for role in OWNED)
    assert plain.manages("host_baseline")
    assert plain.package_versions == {}
    assert (plain.driver.version, plain.driver.extra_modules) == ("latest", ())
    mine = ({"key": "a", "effect": "NoSchedule"},)
    assert host(kubernetes_node_owner="existing", kubernetes_node_taints=list(mine)).kubernetes.taints == mine
    assert plain.toolkit.cdi_spec == ours.toolkit.cdi_spec
    assert from_plain(json.loads(json.dumps(to_plain(plain)))) == plain


@pytest.mark.parametrize(
    ("layout", "package"),
    [(None, "containerd.io"), ("docker", "containerd.io"), ("distribution", "containerd")],
)
def test_the_runtimes_package_is_that_of_its_layout(
    host: Callable[..., Any], layout: str | None, package: str
) -> None:
    found = host(containerd_package_layout=layout)
    assert {"containerd.io", "containerd"} & set(found.package_versions) == {package}
    assert found.containerd.version == found.package_versions[package] == "2.3.7"
    assert host(containerd_version=None).containerd.version == ""


@pytest.mark.parametrize("family", ["Debian", "RedHat"])
def test_the_runtimes_packages_are_those_of_the_role(root: Path, family: str) -> None:
    names = yaml.safe_load((root / f"roles/containerd/vars/{family}.yml").read_text())["__containerd_names"]
    assert {layout: CONTAINERD[layout] for layout in names} == {layout: of[0] for layout, of in names.items()}


@pytest.mark.parametrize("name", ["nvidia_driver_version", "gpusmith_gpu_count"])
def test_what_must_be_given_is_named(host: Callable[..., Any], name: str) -> None:
    with pytest.raises(InputError, match=f"Host 'gpu-1': '{name}' is not set"):
        host(**{name: None})


def test_misspelling_is_offered(host: Callable[..., Any]) -> None:
    with pytest.raises(InputError) as caught:
        host(nvidia_driver_version=None, nvidia_driver_verison="1")
    assert "'nvidia_driver_verison'" in caught.value.message
    assert "'nvidia_driver_version'" in caught.value.hint


def test_a_template_that_was_not_filled_in_is_no_value(host: Callable[..., Any]) -> None:
    with pytest.raises(InputError, match="template of 'nvidia_driver_version'"):
        host(nvidia_driver_version="{{ nobody }}")


def test_the_suite_can_have_a_kubeconfig_of_its_own(host: Callable[..., Any]) -> None:
    assert host(gpusmith_kubeconfig="/admin", validation_kubeconfig="/few").suite_kubeconfig == "/few"
    assert host(gpusmith_kubeconfig="/admin", validation_kubeconfig="").suite_kubeconfig == "/admin"


def test_it_travels_as_plain_data_and_comes_back_the_same(host: Callable[..., Any]) -> None:
    found = host(validation_accepted_xids=[31, 13], kubernetes_node_labels={"rack": "a"})
    assert from_plain(json.loads(json.dumps(to_plain(found)))) == found
