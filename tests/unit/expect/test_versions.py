"""The one rule for versions."""

from __future__ import annotations

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import (
    matching,
)

from gpusmith.checks.driver import driver_versions
from gpusmith.expect import steps, versions
from gpusmith.expect.versions import FULL_DRIVER
from gpusmith.node.facts import NodeFacts
from gpusmith.node.records import parse
from tests.unit.expect.role_plans import driver_plan
from tests.unit.expect.test_driver import LAYOUTS
from tests.unit.hosts import make_host
from tests.unit.records import healthy_record


@pytest.mark.parametrize(
    ("version", "plain"),
    [("580.178.04-1", "580.178.04"), ("1:580.178.04-0ubuntu1", "580.178.04"), ("580.178.04", "580.178.04")],
)
def test_upstream_version(version: str, plain: str) -> None:
    assert versions.upstream(version) == plain


@pytest.mark.parametrize(
    ("version", "upstream"),
    [
        ("580.178.04-1", "580.178.04"),
        ("535.261.03-1~deb12u1", "535.261.03"),
        ("1:580.95.05-1", "580.95.05"),
        ("1.20.1-1", None),
        ("12.8.1-1", None),
    ],
)
def test_driver_versions_are_told_from_others(version: str, upstream: str | None) -> None:
    assert versions.of_driver(version) == upstream


def test_a_version_is_not_the_beginning_of_another() -> None:
    assert versions.is_version("580.95.05-1", "580.95.05")
    assert not versions.is_version("580.95.051-1", "580.95.05")


@pytest.mark.parametrize(
    ("version", "wanted", "is_it"),
    [
        # What people write, and what packagers append to it.
        ("580.178.04-1", "580.178.04", True),
        ("580.178.04", "580.178.04", True),
        ("580.178.04+really1-1", "580.178.04", True),
        ("535.261.03-1~deb12u1", "535.261.03", True),
        ("580.178.04-0ubuntu0.24.04.1", "580.178.04", True),
        ("580.178.04-1.el9", "580.178.04", True),
        # An epoch only orders versions, until it is asked for.
        ("1:580.178.04-1", "580.178.04", True),
        ("3:580.178.04-1.el9", "580.178.04-1.el9", True),
        ("1:580.178.04-1", "1:580.178.04", True),
        ("580.178.04-1", "1:580.178.04", False),
        # A revision that is asked for is that build. The role said yes and the suite no: who pins a build gets it, and has it.
        ("580.178.04-1", "580.178.04-1", True),
        ("1:580.178.04-1", "580.178.04-1", True),
        ("580.178.04-2", "580.178.04-1", False),
        ("580.178.04-10", "580.178.04-1", False),
        ("580.178.04", "580.178.04-1", False),
        # A dot begins another upstream version. The suite said yes and the role no: 550.54.14 and 550.54.15 are two drivers.
        ("580.178.04.1", "580.178.04", False),
        ("580.178.04.1-1", "580.178.04", False),
        ("550.54.14-1", "550.54", False),
        ("580.95.051-1", "580.95.05", False),
        # Other subjects: Kubernetes, containerd, CUDA.
        ("1.36.3-1.1", "1.36.3", True),
        ("1.36.3-150500.1.1", "1.36.3-150500.1.1", True),
        ("1.36.30-1.1", "1.36.3", False),
        ("12.8.1-1", "12.8.*", True),
        ("12.80.1-1", "12.8.*", False),
        (None, "580.178.04", False),
    ],
)
def test_whether_a_package_has_the_wanted_version(version: str | None, wanted: str, is_it: bool) -> None:
    assert versions.is_version(version, wanted) is is_it
    # What installs packages travels to nodes alone, and has to say the same.
    assert matching.satisfies(version, wanted) is is_it


@pytest.mark.parametrize(
    ("version", "full"),
    [
        ("580.178.04", True),
        ("550.120", True),
        ("580.178.04-1", True),
        ("1:535.261.03-1~deb12u1", True),
        ("580.x", False),
        ("", False),
    ],
)
def test_role_and_preflight_agree_on_what_a_full_version_is(version: str, full: bool) -> None:
    settings = {"node": "gpu-1", "version": version, "module_flavour": "auto", "fabric_manager": "auto"}
    assert (driver_plan(healthy_record(), settings, LAYOUTS)["refused"] == "") is full
    assert bool(FULL_DRIVER.match(version)) is full


@pytest.mark.parametrize(
    ("package", "wanted", "right"),
    [("580.178.04-1", "580.178.04-1", True), ("580.178.04.1-1", "580.178.04", False)],
)
def test_role_and_suite_agree_on_versions(package: str, wanted: str, right: bool) -> None:
    record = healthy_record()
    record["packages"]["libcuda1"]["version"] = package
    facts = NodeFacts(make_host(nvidia_driver_version=wanted), parse(record), None, {})
    assert (driver_versions(facts) == []) is right
    settings = {"node": "gpu-1", "version": wanted, "module_flavour": "auto", "fabric_manager": "auto"}
    assert ("libcuda1" not in driver_plan(record, settings, LAYOUTS)["outdated"]) is right


@pytest.mark.parametrize(
    ("version", "than", "older"),
    [
        ("580.95.05", "580.178.04", True),
        ("580.178.04", "580.95.05", False),
        ("580.178.04", "590.10.01-1", True),
        ("580.178.04", "580.178.04-1", False),
        ("580.178.04-1", "580.178.04", False),
        ("580.178.04-1", "1:580.178.04-2", True),
        ("1:580.178.04-2", "580.178.04-1", False),
        ("550.54", "550.54.14", True),
    ],
)
def test_which_driver_is_older(version: str, than: str, older: bool) -> None:
    assert versions.is_older(version, than) is older


@pytest.mark.parametrize(
    ("installed", "playbook"),
    [
        ("580.95.05-1", "upgrade_driver.yml"),
        ("", "upgrade_driver.yml"),
        ("580.190.02-1", "rollback_driver.yml"),
    ],
)
def test_nobody_is_told_to_upgrade_to_an_older_driver(installed: str, playbook: str) -> None:
    assert playbook in steps.upgrade_driver("gpu-1", "580.178.04", installed)
