"""Where a part is somebody else's, its role does nothing, and the suite judges what is there by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.gpusmith.gpu.plugins.filter.packages_due import packages_due
from ansible_collections.gpusmith.gpu.plugins.filter.plan import plan

from gpusmith.checks.devices import cdi
from gpusmith.checks.driver import driver_versions, foreign_driver, holds
from gpusmith.checks.findings import NotApplicable
from gpusmith.checks.runtime import containerd
from gpusmith.checks.services import services
from gpusmith.node.facts import NodeFacts
from gpusmith.node.records import parse
from gpusmith.wanted.node import NodeWanted
from gpusmith.wanted.read import to_plain
from tests.unit.records import healthy_record

RUNTIME = {"name": "50-gpusmith", "runtime": {}}
OWN: dict[str, dict[str, Any]] = {
    "nvidia_driver": {"layouts": {}},
    "nvidia_driver_removal": {},
    "containerd": RUNTIME,
    "nvidia_container_toolkit": RUNTIME,
    "kubernetes_node": {},
}


def seen(wanted: NodeWanted, raw: dict[str, Any]) -> NodeFacts:
    return NodeFacts(wanted, parse(raw), None, {})


@pytest.mark.parametrize("role", OWN)
def test_the_role_does_nothing(host: Callable[..., Any], role: str) -> None:
    wanted = host(**{f"{role.removesuffix('_removal')}_owner": "existing"})
    bare = {**healthy_record(), "packages": {}}
    found = plan(bare, role, to_plain(wanted), OWN[role])
    assert not any(found.values())
    assert packages_due(bare, found["asked"]) is False


def test_any_driver_will_do_that_is_complete(host: Callable[..., Any]) -> None:
    wanted = host(
        nvidia_driver_owner="existing", nvidia_driver_version="999.99.99", nvidia_driver_extra_modules=None
    )
    raw = healthy_record()
    assert driver_versions(seen(wanted, raw)) == []
    raw["module"]["loaded_version"] = "550.10.01"
    assert driver_versions(seen(wanted, raw)) != []


def test_holds_of_somebody_else_are_not_asked_for(host: Callable[..., Any]) -> None:
    raw = healthy_record()
    for package in raw["packages"].values():
        package["held"] = False
    owned = {f"{role}_owner": "existing" for role in OWN if not role.endswith("_removal")}
    assert holds(seen(host(), raw)) != []
    with pytest.raises(NotApplicable):
        holds(seen(host(**owned), raw))


@pytest.mark.parametrize(
    ("role", "unit"),
    [
        ("nvidia_driver", "gpusmith-nvidia-load"),
        ("nvidia_container_toolkit", "gpusmith-gpu-devices"),
    ],
)
def test_units_of_a_role_are_not_asked_for_where_its_part_is_of_others(
    host: Callable[..., Any], role: str, unit: str
) -> None:
    """The other role's unit is there."""
    raw = healthy_record()
    raw["services"][unit].update(enabled="not-found", active="inactive")
    assert services(seen(host(), raw)) != []
    assert services(seen(host(**{f"{role}_owner": "existing"}), raw)) == []


def test_a_toolkit_and_a_plugin_of_others_need_no_cdi(host: Callable[..., Any]) -> None:
    raw = healthy_record()
    raw["containerd"]["effective"]["cdi"] = False
    raw["cdi"].update(specs=[], plugin_specs=[])
    theirs = {"nvidia_container_toolkit_owner": "existing", "gpu_operands_device_plugin": "existing"}
    assert containerd(seen(host(**theirs), raw)) == []
    with pytest.raises(NotApplicable):
        cdi(seen(host(**theirs), raw))
    # Our plugin hands out GPUs by CDI, and our toolkit by its specification as well.
    for role in theirs:
        assert containerd(seen(host(**{role: "existing"}), raw)) != []
        assert cdi(seen(host(**{role: "existing"}), raw)) != []


def test_a_driver_of_others_may_have_come_by_nvidias_installer(host: Callable[..., Any]) -> None:
    raw = healthy_record()
    raw["foreign"] = {"installer": ["/usr/bin/nvidia-uninstall"]}
    theirs = host(nvidia_driver_owner="existing")
    # Over the files of packages it is nobody's way.
    assert foreign_driver(seen(theirs, raw)) != []
    raw["packages"] = {}
    assert foreign_driver(seen(host(), raw)) != []
    with pytest.raises(NotApplicable):
        foreign_driver(seen(theirs, raw))
    assert driver_versions(seen(theirs, raw)) == []
    assert driver_versions(seen(host(), raw)) != []
    raw["module"].update(loaded_version=None)
    assert any("no driver package" in row.cause for row in driver_versions(seen(theirs, raw)))
