"""What a node needs around its GPUs: services, fabric, container runtime."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.check("nodes.services")
def test_services_run(verify: Callable[[str], None], node: str) -> None:
    """Container runtime, kubelet and persistence daemon run and are enabled."""
    verify(node)


@pytest.mark.check("nodes.fabric")
def test_fabric_is_complete(verify: Callable[[str], None], node: str) -> None:
    """With NVSwitches: fabric manager runs, and every GPU has joined the fabric."""
    verify(node)


@pytest.mark.check("nodes.containerd")
def test_containerd_is_configured(verify: Callable[[str], None], node: str) -> None:
    """The effective configuration has the nvidia runtime, systemd cgroups and CDI."""
    verify(node)


@pytest.mark.check("nodes.cdi")
def test_cdi_specification_is_fresh(verify: Callable[[str], None], node: str) -> None:
    """The CDI specification is for the loaded driver and names every GPU."""
    verify(node)


@pytest.mark.check("nodes.char-links")
def test_device_links_are_there(verify: Callable[[str], None], node: str) -> None:
    """A reload of systemd takes no GPU from a running container."""
    verify(node)


@pytest.mark.check("nodes.host-baseline")
def test_kernel_is_set_up_for_kubernetes(verify: Callable[[str], None], node: str) -> None:
    """Swap is off, and kernel modules and parameters are those of the inventory."""
    verify(node)


@pytest.mark.check("nodes.uniformity")
def test_node_is_like_its_group(verify: Callable[[str], None], node: str) -> None:
    """The node does not differ from the others of its model."""
    verify(node)
