"""The driver of a node: versions, NVML, witnesses, and what keeps it at its version."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.check("nodes.reachable")
def test_node_answers(verify: Callable[[str], None], node: str) -> None:
    """The node answers over ssh, with its host key checked, and its record can be read."""
    verify(node)


@pytest.mark.check("nodes.identity")
def test_machine_is_the_node_of_the_inventory(verify: Callable[[str], None], node: str) -> None:
    """The name leads to the machine that has it in the cluster."""
    verify(node)


@pytest.mark.check("nodes.simulation-witnesses")
def test_simulation_witnesses_agree(verify: Callable[[str], None], node: str) -> None:
    """Inventory and loaded library say the same about simulation."""
    verify(node)


@pytest.mark.check("nodes.driver-versions")
def test_package_library_and_module_are_one_version(verify: Callable[[str], None], node: str) -> None:
    """Package = libraries = module file = loaded module = the inventory's version."""
    verify(node)


@pytest.mark.check("nodes.nvml")
def test_every_gpu_answers_nvml(verify: Callable[[str], None], node: str) -> None:
    """NVML starts, and no GPU is lost."""
    verify(node)


@pytest.mark.check("nodes.holds")
def test_packages_are_held(verify: Callable[[str], None], node: str) -> None:
    """No routine upgrade can change driver, runtime or Kubernetes packages."""
    verify(node)
