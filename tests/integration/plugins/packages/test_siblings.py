"""Packages of a foreign architecture are others', whatever their names, where no preflight refuses them: with real apt."""

from __future__ import annotations

import os
from typing import Any

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import base
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.apt import Apt
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.work import Work

from tests.unit.plugins.packages.test_module import DEFAULTS

from .conftest import System, made

OLD, NEW = "580.178.04-1", "595.71.05-1"
SIBLING = "lib:i386"
BOTH = ("lib", SIBLING)
SET: dict[str, Any] = {"packages": {"smi": "580.178.04"}, "patterns": ["lib*"]}


OWN = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A driver whose library is there for both architectures, in all versions but one."""
    rows = [
        *(("smi", version, f"Depends: lib (= {version}), unversioned") for version in (OLD, NEW)),
        *(("lib", version, f"Architecture: {arch}\nMulti-Arch: same") for version in (OLD, NEW) for arch in (OWN, "i386")),
        *(("unversioned", "1-1", f"Architecture: {arch}\nMulti-Arch: same") for arch in (OWN, "i386")),
        ("lib", "610.1-1", f"Architecture: {OWN}\nMulti-Arch: same"),
        ("game", "1-1", "Architecture: i386\nDepends: lib"),
    ]  # fmt: skip
    return made(tmp_path_factory, rows)


@pytest.fixture
def both(changing: System) -> System:
    """A driver's library of the older version and its sibling, of which one is held."""
    (changing.root / "var/lib/dpkg/arch").write_text(f"{OWN}\ni386\n")
    options = [f"APT::Architectures::={arch}" for arch in (OWN, "i386")]
    options.append("DPkg::Options::=--force-unsafe-io")
    apt = Apt(5, changing.root, [word for option in options for word in ("-o", option)])
    found = System(apt, changing.root, changing.given, changing.wrong_key)
    found.configure()
    apt.install({"smi": OLD, "lib": OLD, SIBLING: OLD})
    return found


def work(system: System, **params: Any) -> Any:
    asked = {**DEFAULTS, **SET, "name": "test", "repository": system.given, **params}
    return Work(asked, False, system.apt)


def versions(system: System, *names: str) -> dict[str, str]:
    return {name: found.version for name, found in system.apt.installed(names).items()}


def test_a_hold_of_the_machines_own_package_is_enough(both: System) -> None:
    work(both).present()
    assert both.apt.installed(["lib*"]) == {"lib": base.Installed(OLD, True, "lib")}
    again = work(both)
    again.present()
    assert not again.changed
    assert not both.apt.installed([SIBLING])[SIBLING].held


def test_a_sibling_that_would_go_or_that_somebody_holds_is_refused_by_name(both: System) -> None:
    work(both).present()
    newer = {"packages": {"smi": "595.71.05"}, "release": ["smi", "lib"]}
    both.apt.hold({SIBLING: OLD})
    with pytest.raises(base.PackageError, match=rf"would change '{SIBLING}' \({OLD} to {NEW}\)\. Nothing"):
        work(both, **newer).present()
    both.apt.release([SIBLING])
    work(both, **newer).present()
    assert versions(both, *BOTH) == dict.fromkeys(BOTH, NEW)
    with pytest.raises(base.PackageError, match=rf"would remove '{SIBLING}' \({NEW}\)\. Nothing was changed"):
        work(both, release=["smi", "lib"]).present()
    assert versions(both, *BOTH) == dict.fromkeys(BOTH, NEW)


def test_a_removal_takes_nobody_elses(both: System) -> None:
    both.apt.install({"game:i386": ""})
    with pytest.raises(base.PackageError, match=r"also remove .*'game:i386' \(1-1\)"):
        both.apt.removal(["smi", "lib", SIBLING])
    assert both.apt.remove(["smi", "lib"]) == dict.fromkeys(["smi", "lib"], OLD)
    assert versions(both, "lib*", SIBLING) == {SIBLING: OLD}
