"""What preflight makes of firmware that wants signed modules, and of a site's key."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.errors import Refusal
from gpusmith.preflight.secure_boot import SiteKey, notes

from ..hosts import run
from .test_judge import facts, only, refused

KEY = SiteKey("/etc/gpusmith/modules.der", "0a1b2c")
DISTRIBUTION = "6ccece7e4c6c0d1f"


def secured(signing: SiteKey | Refusal | None = None, *known: str, os_id: str = "debian") -> dict[str, Any]:
    tree = facts()
    tree["record"]["system"].update(secure_boot=True, kernel_keys=list(known) or None)
    tree["record"]["host"].update(os_id=os_id, os_version={"debian": "12", "ubuntu": "24.04"}[os_id])
    return {**tree, "signing": signing}


@pytest.mark.parametrize(("os_id", "prebuilt"), [("debian", False), ("ubuntu", True)])
def test_without_a_key_the_ways_out_are_named(os_id: str, prebuilt: bool) -> None:
    hint = only(refused(secured(os_id=os_id))).hint
    assert "'nvidia_driver_build: once_per_kernel' with 'nvidia_driver_build_signing'" in hint
    assert ("nvidia_driver_module_build: prebuilt" in hint) is prebuilt
    assert refused(secured(os_id=os_id), preflight_secure_boot_allowed=True) == []


def test_modules_that_the_distribution_signs_are_loaded() -> None:
    assert refused(secured(os_id="ubuntu"), nvidia_driver_module_build="prebuilt") == []


def test_a_site_s_key_is_enough_where_the_kernel_knows_its_certificate() -> None:
    assert refused(secured(KEY, DISTRIBUTION, "0a1b2c")) == []
    assert notes(secured(KEY, DISTRIBUTION, "0a1b2c"), run()) == []


def test_a_certificate_that_the_kernel_does_not_know_is_refused() -> None:
    # What ends alike is another one.
    found = only(refused(secured(KEY, DISTRIBUTION, "ff0a1b2c")))
    assert KEY.certificate in found.message
    assert KEY.number in found.message
    assert "mokutil --import" in found.hint
    assert refused(secured(KEY, DISTRIBUTION), preflight_secure_boot_allowed=True) == []


def test_a_kernel_that_lists_nothing_refuses_nobody_and_is_told() -> None:
    tree = secured(KEY)
    assert refused(tree) == []
    (note,) = notes(tree, run())
    assert KEY.certificate in note
    assert notes(tree, run(preflight_secure_boot_allowed=True)) == []
    # Nobody asks for signatures.
    tree["record"]["system"]["secure_boot"] = False
    assert notes(tree, run()) == []


def test_a_key_that_cannot_be_used_is_refused_also_without_secure_boot() -> None:
    reason = Refusal("signing key: no", "Correct it.")
    bare = {**facts(), "signing": reason}
    bare["record"]["module"]["installed_version"] = None
    assert refused(bare) == [reason]
    # Nothing is to be signed, and a colleague's controller need not have the key.
    bare["record"]["module"]["installed_version"] = "580.178.04"
    assert refused(bare) == []
    assert refused(secured(reason)) == [reason]


def test_modules_that_each_node_signs_are_refused_beside_a_sites_key() -> None:
    tree = secured(KEY, KEY.number)
    assert refused(tree) == []
    (found,) = refused(tree, nvidia_driver_extra_modules=["nvidia_peermem", "gdrdrv"])
    assert "'gdrdrv'" in found.message
    assert "peermem" not in found.message
    assert refused(tree, nvidia_driver_extra_modules=["gdrdrv"], preflight_secure_boot_allowed=True) == []


@pytest.mark.parametrize(
    ("signing", "loaded", "wanted", "told"),
    [
        (None, None, {}, True),
        (None, "580.178.04", {}, False),
        (KEY, None, {}, False),
        (None, None, {"preflight_secure_boot_allowed": True}, False),
        (None, None, {"nvidia_driver_module_build": "prebuilt"}, False),
        (None, None, {"nvidia_driver_owner": "existing"}, False),
    ],
)
def test_firmware_that_does_not_say_whether_it_wants_signed_modules_is_told(
    signing: SiteKey | None, loaded: str | None, wanted: dict[str, Any], told: bool
) -> None:
    tree = {**facts(), "signing": signing}
    tree["record"]["system"]["secure_boot"] = None
    tree["record"]["module"]["loaded_version"] = loaded
    assert ["could not be read" in note for note in notes(tree, run(**wanted))] == ([True] if told else [])
