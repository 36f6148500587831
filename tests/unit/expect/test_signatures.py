"""With Secure Boot and a site's key: kernels that can be booted have modules that this key signed, and none comes by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpusmith.expect import packages, signatures, taken
from gpusmith.expect.choice import driver_of
from gpusmith.expect.layouts import Unmet
from gpusmith.expect.wanted import Driver
from gpusmith.node.records import parse
from gpusmith.problems import Cure
from tests.unit.built.conftest import NUMBER, Pair
from tests.unit.expect.converged import LAYOUTS, SETTINGS, converged_record
from tests.unit.expect.role_plans import driver_plan, driver_removal
from tests.unit.expect.test_removal import SETTINGS as LEAVING
from tests.unit.hosts import VERSION, make_host

RUNNING, NEXT = "6.1.0", "6.1.1"
SITE = {"signer": "site modules", "signing_key": NUMBER}
DKMS = {"signer": "DKMS module signing key", "signing_key": "490a04e2"}
NOBODY = {"signer": "", "signing_key": ""}
UNKNOWN = {"signer": None, "signing_key": None}
KERNEL_PACKAGE = "linux-image-amd64"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(Pair(tmp_path_factory.mktemp("keys"), "site modules").certificate)


def seen(**by: Mapping[str, Any]) -> dict[str, Any]:
    """A node with Secure Boot and a kernel beside the running one, each with a module that somebody signed."""
    raw = converged_record()
    raw["system"]["secure_boot"] = True
    module = {"image": "i", "module": "m", "module_version": VERSION, "headers": True}
    raw["kernels"] = [
        {"release": RUNNING, **module, **by.get("running", SITE)},
        {"release": NEXT, **module, **by.get("next", SITE)},
    ]
    return raw


def signed_by(certificate: str) -> Driver:
    return Driver(
        node="gpu-1", version=VERSION, build="once_per_kernel", build_signing={"certificate": certificate}
    )


def plan(raw: dict[str, Any], certificate: str) -> dict[str, Any]:
    asked = {**SETTINGS["nvidia_driver"], "certificate": certificate}
    found: dict[str, Any] = driver_plan(raw, asked, LAYOUTS)
    return found


def test_modules_of_the_sites_key_are_right(certificate: str) -> None:
    found = plan(seen(), certificate)
    assert (found["problems"], found["to_take"]) == ([], [])


@pytest.mark.parametrize(
    ("who", "words"),
    [(DKMS, "'DKMS module signing key' (certificate 490a04e2)"), (NOBODY, "nobody")],
)
@pytest.mark.parametrize(("where", "release"), [("running", RUNNING), ("next", NEXT)])
def test_a_module_that_somebody_else_signed_is_named_and_signed_anew(
    certificate: str, where: str, release: str, who: dict[str, Any], words: str
) -> None:
    raw = seen(**{where: who})
    (problem,) = signatures.problems(parse(raw), signed_by(certificate))
    assert f"module for kernel {release} is signed by {words}" in problem.cause
    assert "'nvidia_driver_build_signing'" in problem.cause
    assert problem.cure is Cure.PACKAGES
    found = plan(raw, certificate)
    assert found["problems"] == [problem.cause.removeprefix("Node 'gpu-1': ").removesuffix(".")]
    assert found["to_take"] == [release]


def test_what_nobody_can_tell_or_asks_for_is_no_problem(certificate: str) -> None:
    driver = signed_by(certificate)
    raw = seen(next=DKMS)
    # Each node signs for itself.
    assert signatures.problems(parse(raw), replace(driver, build_signing={})) == []
    for secure_boot in (False, None):
        raw["system"]["secure_boot"] = secure_boot
        assert signatures.problems(parse(raw), driver) == []
    assert signatures.problems(parse(seen(next=UNKNOWN)), driver) == []
    # No kernel that can be booted, and a module of another version, which is a problem of its own.
    assert signatures.problems(parse(seen(next={**DKMS, "image": None})), driver) == []
    assert signatures.problems(parse(seen(next={**DKMS, "module_version": "570.1.1"})), driver) == []


def test_modules_of_a_former_key_of_the_site_are_signed_anew(tmp_path: Path) -> None:
    changed = Pair(tmp_path, "site modules", number=0xFAB12C)
    found = plan(seen(), str(changed.certificate))
    assert sorted(found["to_take"]) == [RUNNING, NEXT]
    signed = {**SITE, "signing_key": "fab12c"}
    assert plan(seen(running=signed, next=signed), str(changed.certificate))["to_take"] == []


def test_a_certificate_that_cannot_be_read_is_told() -> None:
    driver = signed_by("/nowhere/modules.der")
    with pytest.raises(Unmet, match=r"'/nowhere/modules.der' cannot be read"):
        taken.to_take(parse(seen()), driver)
    assert "'/nowhere/modules.der' cannot be read" in plan(seen(), "/nowhere/modules.der")["refused"]
    # Without Secure Boot nobody reads it.
    raw = seen()
    raw["system"]["secure_boot"] = False
    assert plan(raw, "/nowhere/modules.der")["refused"] == ""


@pytest.mark.parametrize(
    ("secure_boot", "signs", "held"), [(True, True, True), (False, True, False), (True, False, False)]
)
def test_what_brings_the_next_kernel_is_held(
    certificate: str, secure_boot: bool, signs: bool, held: bool
) -> None:
    raw, named = seen(), certificate if signs else ""
    raw["system"]["secure_boot"] = secure_boot
    of_kernels = (KERNEL_PACKAGE, "linux-image-6.1.0-40-amd64", "linux-headers-amd64")
    raw["packages"] |= {name: {"version": "6.1.158-1", "held": False} for name in of_kernels}
    found = plan(raw, named)
    assert found["kernel_to_hold"] == ([KERNEL_PACKAGE] if held else [])
    assert found["unheld"] == found["kernel_to_hold"]
    # It is no part of the set, of which an upgrade saves all packages.
    assert found["asked"]["companions"] == []
    asked = packages.to_hold(parse(raw), signed_by(named))
    assert (KERNEL_PACKAGE in asked) is held
    raw["packages"][KERNEL_PACKAGE]["held"] = True
    assert (plan(raw, named)["kernel_to_hold"], plan(raw, named)["problems"]) == ([], [])
    # And it may move when the driver goes.
    raw["kubernetes"]["joined"] = False
    gone = driver_removal(raw, {**LEAVING, "certificate": named}, LAYOUTS)
    assert gone["companions"] == ([KERNEL_PACKAGE] if held else [])


SIGNING = {"nvidia_driver_build_signing": {"key": "/k", "certificate": "/c"}}
ONCE = {"nvidia_driver_build": "once_per_kernel"}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({**SIGNING, **ONCE}, "/c"),
        (SIGNING, ""),
        (ONCE, ""),
        ({**SIGNING, **ONCE, "nvidia_driver_module_build": "prebuilt"}, ""),
    ],
)
def test_the_suite_knows_by_the_inventory_who_signs(variables: dict[str, Any], expected: str) -> None:
    assert driver_of(make_host(**variables), None, parse(seen())).certificate == expected
