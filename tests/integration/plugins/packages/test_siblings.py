"""Packages of a foreign architecture beside those of the machine's own, as Ubuntu's driver recommends them: with real apt."""

from __future__ import annotations

import os
from pathlib import Path
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


def test_a_sibling_follows_there_and_back(both: System) -> None:
    work(both).present()
    newer = {"packages": {"smi": "595.71.05"}, "release": ["smi", "lib"]}
    work(both, **newer).present()
    assert versions(both, *BOTH) == dict.fromkeys(BOTH, NEW)
    both.write(both.apt.pin_files("test", {"lib": [OLD]}))
    plan = both.apt.simulate({"smi": OLD, "lib": OLD}, {})
    assert plan.changed == dict.fromkeys(["smi", *BOTH], (NEW, OLD))
    assert plan.removed == {}
    work(both, release=["smi", "lib"]).present()
    assert versions(both, *BOTH) == dict.fromkeys(BOTH, OLD)


def test_a_sibling_that_cannot_follow_is_named(both: System) -> None:
    plan = both.apt.simulate({"lib": "610.1-1"}, {"lib": ["610.1-1"]})
    assert plan.removed == {"smi": OLD, SIBLING: OLD}
    assert plan.changed == {"lib": (OLD, "610.1-1")}


def test_a_sibling_comes_back_from_the_folder_of_its_set(both: System, tmp_path: Path) -> None:
    work(both).present()
    newer = {"packages": {"smi": "595.71.05"}, "release": ["smi", "lib"]}
    present, target = tmp_path / "present", tmp_path / "target"
    work(both).fetched(present)
    work(both, **newer).fetched(target)
    for folder in (present, target):
        saved = {each.name for each in base.read_manifest(folder, "apt")}
        assert {"smi", *BOTH} <= saved
    nothing = {"repository": None}
    for path in (both.root / "etc/apt/sources.list.d").iterdir():
        path.unlink()
    work(both, **newer, **nothing).from_folder(target)
    assert versions(both, *BOTH) == dict.fromkeys(BOTH, NEW)
    work(both, release=["smi", "lib"], **nothing).from_folder(present)
    assert versions(both, *BOTH) == dict.fromkeys(BOTH, OLD)
    again = work(both, **nothing)
    again.from_folder(present)
    assert not again.changed
    fetched = work(both)
    fetched.fetched(present)
    assert not fetched.changed


def test_a_removal_takes_siblings_along_but_nobody_elses(both: System) -> None:
    both.apt.install({"game:i386": ""})
    told = r"also remove 'game:i386' \(1-1\)\."
    for take in (both.apt.removal, both.apt.remove):
        with pytest.raises(base.PackageError, match=told):
            take(["smi", "lib"])
    assert versions(both, "smi", *BOTH) == dict.fromkeys(["smi", *BOTH], OLD)
    both.apt.remove(["game:i386"])
    gone = both.apt.remove(["smi", "lib"], unused=True)
    assert gone == {**dict.fromkeys(["smi", *BOTH], OLD), "unversioned": "1-1"}
    assert versions(both, "smi", "lib*") == {}


def test_what_nothing_needs_goes_without_the_sibling_that_something_needs(both: System) -> None:
    both.apt.install({"unversioned:i386": ""})
    both.apt.remove(["smi", "lib"], unused=True)
    assert versions(both, "unversioned", "unversioned:i386") == {"unversioned:i386": "1-1"}
