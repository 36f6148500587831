"""Hosts: what the inventory says of them, with the defaults of the specs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusmith.errors import InputError
from gpusmith.inventory.host import CONTAINERD, NEEDED
from gpusmith.inventory.rules import CONNECTION
from gpusmith.inventory.specs import load


def test_what_the_inventory_leaves_out_has_the_default_of_the_spec(host: Callable[..., Any]) -> None:
    known, plain = load().variables, host(validation_timeout_pod_s=None)
    assert plain.swap_off
    assert list(plain.kernel_modules) == known["host_baseline_modules"].default
    assert plain.sysctl == known["host_baseline_sysctl"].default
    assert list(plain.taints) == known["kubernetes_node_taints"].default
    assert plain.pod_timeout_s == known["validation_timeout_pod_s"].default
    assert plain.operands_namespace == known["gpu_operands_namespace"].default
    assert plain.operands == ("nvidia-device-plugin", "gpu-feature-discovery", "nfd-worker")
    assert plain.node_name == "gpu-1"


def test_every_needed_variable_is_declared() -> None:
    assert set(NEEDED) - set(CONNECTION) <= set(load().variables)


def test_operands_of_somebody_else_are_not_ours(host: Callable[..., Any]) -> None:
    assert host(gpu_operands_device_plugin="existing").operands == ("gpu-feature-discovery", "nfd-worker")


@pytest.mark.parametrize(
    ("layout", "package"),
    [(None, "containerd.io"), ("docker", "containerd.io"), ("distribution", "containerd")],
)
def test_the_runtimes_package_is_that_of_its_layout(
    host: Callable[..., Any], layout: str | None, package: str
) -> None:
    found = host(containerd_package_layout=layout)
    assert {"containerd.io", "containerd"} & set(found.package_versions) == {package}
    assert found.containerd_version == found.package_versions[package] == "2.3.7"
    assert host(containerd_version=None).containerd_version is None


@pytest.mark.parametrize("family", ["Debian", "RedHat"])
def test_the_runtimes_packages_are_those_of_the_role(root: Path, family: str) -> None:
    names = yaml.safe_load((root / f"roles/containerd/vars/{family}.yml").read_text())["__containerd_names"]
    assert {layout: CONTAINERD[layout] for layout in names} == {layout: of[0] for layout, of in names.items()}


@pytest.mark.parametrize("name", ["nvidia_driver_version", "gpusmith_gpu_count"])
def test_what_must_be_given_is_named(host: Callable[..., Any], name: str) -> None:
    with pytest.raises(InputError, match=f"Host 'gpu-1' has no '{name}'"):
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
    assert host(gpusmith_kubeconfig="/admin", validation_kubeconfig="/few").kubeconfig == "/few"
    assert host(gpusmith_kubeconfig="/admin", validation_kubeconfig="").kubeconfig == "/admin"
