"""Ubuntu's names of the driver's packages by this machine's own apt and dpkg: there, further, and back without a repository."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import base, preview
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.folder_work import FolderWork

from gpusmith.errors import ToolError
from gpusmith.expect import packages as judge
from gpusmith.expect import wanted
from gpusmith.node.records import parse
from gpusmith.upgrade.on_machine import Machine
from gpusmith.upgrade.proof import Validation
from tests.integration.plugins.packages import conftest as real
from tests.integration.plugins.plays import play
from tests.unit.built.conftest import Pair
from tests.unit.expect.role_plans import driver_parts, driver_plan
from tests.unit.expect.test_driver import SETTINGS
from tests.unit.families.systems import SYSTEMS, value
from tests.unit.families.test_leftovers import BEFORE, KERNEL, NEW, with_driver
from tests.unit.plugins.packages.test_module import DEFAULTS

changing, system = real.changing, real.system
MODULES = f"linux-modules-nvidia-580-server-open-{KERNEL}"
OBJECTS, SIGNATURES = (
    f"linux-objects-nvidia-580-server-open-{KERNEL}",
    f"linux-signatures-nvidia-{KERNEL}",
)
OTHER_KERNEL = "6.8.0-60-generic"
FIRMWARE = "nvidia-firmware-580-server-"
LAYOUTS = value("nvidia_driver", "Ubuntu 24", "__nvidia_driver_layouts")
ASKED = {
    **SETTINGS,
    "version": BEFORE,
    "package_layout": "distribution",
    "module_build": "prebuilt",
    "fabric_manager": "disabled",
}


def of_driver(version: str, modules: str) -> list[tuple[str, str, str]]:
    """The packages of a version, with what depends on what in Canonical's control files."""
    full = f"{version}-0ubuntu0.24.04.1"
    common = (
        f"nvidia-kernel-common-580-server (<= {version}-1), nvidia-kernel-common-580-server (>= {version})"
    )
    virtual = f"nvidia-kernel-common-580-server-{version}"
    parts = ("libnvidia-compute", "nvidia-compute-utils", "libnvidia-cfg1")
    exact = ", ".join(f"{name}-580-server (= {full})" for name in parts)
    return [
        (f"{FIRMWARE}{version}", full, ""),
        ("nvidia-kernel-common-580-server", full, f"Provides: {virtual}\nDepends: {FIRMWARE}{version}"),
        *((f"{name}-580-server", full, f"Depends: {virtual}") for name in (*parts, "nvidia-utils")),
        ("nvidia-headless-no-dkms-580-server-open", full, f"Depends: {common}, {exact}"),
        (MODULES, modules, f"Depends: {common}, {OBJECTS} (= {modules}), {SIGNATURES} (= {modules})"),
        (OBJECTS, modules, ""),
        (SIGNATURES, modules, ""),
    ]


def alone(name: str) -> str:
    return f"Provides: {name}\nConflicts: {name}\nReplaces: {name}"


def with_branch(version: str, full: str) -> list[tuple[str, str, str]]:
    """NVIDIA's repository up to 580."""
    firmware = f"nvidia-firmware-580-{version}"
    return [
        (firmware, full, ""),
        ("nvidia-kernel-common-580", full, f"Depends: {firmware}\n{alone('nvidia-kernel-common')}"),
        *(
            (f"{name}-580", full, f"Depends: nvidia-kernel-common-580 (= {full})\n{alone(name)}")
            for name in ("libnvidia-compute", "libnvidia-cfg1", "nvidia-utils", "nvidia-compute-utils")
        ),
        ("nvidia-dkms-580-open", full, alone("nvidia-dkms-kernel")),
        ("nvidia-modprobe", full, ""),
        # What is not needed by any of these.
        *(
            (f"{name}-580", full, f"Depends: libnvidia-compute-580 (= {full})\n{alone(name)}")
            for name in ("libnvidia-decode", "libnvidia-gone")
        ),
        ("libnvidia-nscq-580", full, ""),
        ("nvidia-driver-pinning-580", "580-1", alone("nvidia-driver-pinning")),
    ]


def without_branch(version: str, full: str) -> list[tuple[str, str, str]]:
    """NVIDIA's repository from 590 on."""
    del version
    return [
        ("libnvidia-compute", full, "Conflicts: nvidia-utils, nvidia-compute-utils\nReplaces: nvidia-utils"),
        ("libnvidia-cfg1", full, ""),
        ("nvidia-firmware", full, ""),
        ("nvidia-kernel-common", full, "Depends: nvidia-firmware"),
        ("nvidia-persistenced", full, ""),
        ("nvidia-dkms-open", full, alone("nvidia-dkms-kernel")),
        ("nvidia-modprobe", full, ""),
        ("libnvidia-decode", full, f"Depends: libnvidia-compute (= {full})"),
        ("libnvidia-nscq", full, ""),
        ("nvidia-driver-pinning-595", "595-1", alone("nvidia-driver-pinning")),
    ]


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The archive with two versions, and a newer kernel without a module."""
    rows = [*of_driver(BEFORE, "6.8.0-79.79"), *of_driver(NEW, "6.8.0-79.79+1")]
    rows += [("linux-image-generic", version, "") for version in ("6.8.0-79.79", "6.8.0-80.80")]
    rows += [(MODULES.replace(KERNEL, OTHER_KERNEL), "6.8.0-60.60", "")]
    rows += [
        *with_branch("580.178.04", "580.178.04-1ubuntu1"),
        *without_branch("595.91.07", "595.91.07-1ubuntu1"),
    ]
    return real.made(tmp_path_factory, rows)


class Node:
    """A machine whose packages are those of the system in a folder."""

    def __init__(self, there: real.System, settings: Mapping[str, Any]) -> None:
        self.there, self.settings = there, settings

    def look(self) -> dict[str, Any]:
        record = with_driver([], NEW)
        found = self.there.apt.installed(["*"])
        record["packages"] = {
            name: {"version": package.version, "held": package.held} for name, package in found.items()
        }
        return record

    def ask(self, module: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        assert module == "gpusmith.gpu.packages"
        words = {**DEFAULTS, **asked}
        folder, state = words.pop("folder", None), words.pop("state", "present")
        work = FolderWork({**words, "folder": folder}, False, self.there.apt)
        try:
            if state == "fetched":
                work.fetched(Path(folder))
            elif state == "absent":
                work.absent()
            elif folder:
                work.from_folder(Path(folder))
            else:
                work.present()
        except base.PackageError as error:
            return {"failed": True, "msg": str(error)}
        return {"saved": work.saved, "changed": work.changed}

    def plan(self, version: str) -> dict[str, Any]:
        return driver_plan(self.look(), {**self.settings, "version": version}, LAYOUTS)

    def asked(self, version: str) -> dict[str, Any]:
        """As role nvidia_driver asks for it."""
        return {**self.plan(version)["asked"], "repository": self.there.given}

    def upgrade(self, target: str, folder: Path) -> Machine:
        """As role gpu_upgrade works on it."""
        wanted, own = driver_parts(self.settings, LAYOUTS)
        return Machine(
            host="gpu-1",
            node="gpu-1",
            run="run-1",
            ask=self.ask,
            look=self.look,
            cluster=None,  # type: ignore[arg-type]
            packages=self.asked(target),
            wanted=wanted,
            own=own,
            validation=Validation("validation", "inventory", folder),
        )

    def state(self) -> dict[str, tuple[str, bool]]:
        """Version without revision, and whether it is held, by name."""
        found = self.there.apt.installed(["*"])
        return {
            name: (each.version.partition("-0ubuntu")[0].partition("-1ubuntu")[0], each.held)
            for name, each in found.items()
        }


class SecureNode(Node):
    """It boots with Secure Boot."""

    def look(self) -> dict[str, Any]:
        record = super().look()
        record["system"] = {"secure_boot": True}
        return record


def previewed(there: real.System, asked: Mapping[str, Any]) -> dict[str, Any]:
    """What preflight's simulation finds."""
    lacks = {"nvidia_driver": preview.needs(there.apt, asked)}
    with there.apt.aside({"nvidia-driver": there.repository}, beside_node=True) as beside:
        found: dict[str, Any] = preview.simulate(beside, {"nvidia_driver": asked}, lacks)
    return found


def expected(version: str, modules: str) -> dict[str, tuple[str, bool]]:
    names = [name for name, _version, _fields in of_driver(version, modules) if not name.startswith("linux-")]
    return {
        **dict.fromkeys(names, (version, True)),
        **dict.fromkeys((MODULES, OBJECTS, SIGNATURES), (modules, True)),
        "linux-image-generic": ("6.8.0-79.79", True),
        # In a version of its own.
        "nvidia-modprobe": ("580.178.04", True),
    }


BESIDES = {
    "libnvidia-decode-580": "libnvidia-decode",
    "libnvidia-nscq-580": "libnvidia-nscq",
    "nvidia-driver-pinning-580": "nvidia-driver-pinning-595",
    "libnvidia-gone-580": "",
}
BESIDES_AFTER = set(BESIDES.values())


def test_a_module_that_comes_built_goes_with_its_driver(
    changing: real.System, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("gpusmith.upgrade.on_machine.FOLDER", str(tmp_path / "saved"))
    node = Node(changing, ASKED)
    changing.configure()
    changing.apt.install({"linux-image-generic": "6.8.0-79.79"})
    assert not node.ask("gpusmith.gpu.packages", node.asked(BEFORE)).get("failed")
    assert node.state() == expected(BEFORE, "6.8.0-79.79")
    # A second run asks for nothing.
    assert node.ask("gpusmith.gpu.packages", node.asked(BEFORE)) == {"saved": {}, "changed": False}
    machine = node.upgrade(NEW, tmp_path)
    machine.prepare(NEW)
    machine.prepare(BEFORE)
    assert node.state() == expected(BEFORE, "6.8.0-79.79")
    machine.apply(NEW)
    assert node.state() == expected(NEW, "6.8.0-79.79+1")
    # No repository is needed for the way back.
    for path in changing.root.glob("etc/apt/sources.list.d/*"):
        path.unlink()
    machine.apply(BEFORE)
    assert node.state() == expected(BEFORE, "6.8.0-79.79")


def test_roles_hold_what_the_suite_wants_held_with_modules_that_come_built(changing: real.System) -> None:
    """Also for a second kernel, and what modules consist of."""
    node = Node(changing, ASKED)
    changing.configure()
    other = MODULES.replace(KERNEL, OTHER_KERNEL)
    changing.apt.install({"linux-image-generic": "6.8.0-79.79", other: ""})
    found = previewed(changing, node.asked(BEFORE))
    assert (found["error"], found["plan"]["installed"][OBJECTS]) == ("", "6.8.0-79.79")
    node.ask("gpusmith.gpu.packages", node.asked(BEFORE))
    assert {name for name, (_, held) in node.state().items() if name.startswith("linux-") and held} == {
        "linux-image-generic", MODULES, OBJECTS, SIGNATURES, other,
    }  # fmt: skip
    suite = wanted.Driver(node="gpu-1", version=BEFORE)
    seen = parse(node.look())
    assert judge.loose(seen, judge.to_hold(seen, suite)) == []
    assert node.ask("gpusmith.gpu.packages", node.asked(BEFORE))["changed"] is False
    # And they can move again when the driver goes.
    companions = node.plan(BEFORE)["asked"]["companions"]
    node.ask(
        "gpusmith.gpu.packages", {"name": "nvidia-driver-kernel", "repository": None, "release": companions}
    )
    assert not any(held for name, (_, held) in node.state().items() if name.startswith("linux-"))


def test_the_kernel_is_held_where_a_sites_key_signs_and_no_way_back_needs_its_package(
    changing: real.System, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("gpusmith.upgrade.on_machine.FOLDER", str(tmp_path / "saved"))
    version, certificate = "580.178.04", str(Pair(tmp_path, "site").certificate)
    asked = {**ASKED, "package_layout": "nvidia", "module_build": "dkms", "certificate": certificate}
    node = SecureNode(changing, asked)
    changing.configure()
    changing.apt.install({"linux-image-generic": "6.8.0-79.79"})
    node.ask("gpusmith.gpu.packages", node.asked(version))
    held = node.plan(version)["kernel_to_hold"]
    hold = {"name": "nvidia-driver-kernel", "repository": None, "companions": held}
    assert node.ask("gpusmith.gpu.packages", hold)["changed"] is True
    assert node.state()["linux-image-generic"] == ("6.8.0-79.79", True)
    assert node.plan(version)["kernel_to_hold"] == []
    suite = wanted.Driver(
        node="gpu-1", version=version, build="once_per_kernel", build_signing={"certificate": certificate}
    )
    seen = parse(node.look())
    assert judge.loose(seen, judge.to_hold(seen, suite)) == []
    # Repositories drop a kernel's package when the next one comes.
    node.upgrade("595.91.07", tmp_path).prepare(version)
    (manifest,) = tmp_path.glob("saved/*/manifest.json")
    assert "libnvidia-compute-580" in manifest.read_text()
    assert "linux-image" not in manifest.read_text()


def test_names_that_lose_their_branch_are_replaced_and_come_back(
    changing: real.System, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("gpusmith.upgrade.on_machine.FOLDER", str(tmp_path / "saved"))
    old, new = "580.178.04", "595.91.07"
    node = Node(changing, {**ASKED, "version": old, "package_layout": "nvidia", "module_build": "dkms"})
    changing.configure()
    assert not node.ask("gpusmith.gpu.packages", node.asked(old)).get("failed")
    before = {name: (old, True) for name, _version, _fields in with_branch(old, "") if name not in BESIDES}
    after = {
        name: (new, True) for name, _version, _fields in without_branch(new, "") if name not in BESIDES_AFTER
    }
    assert node.state() == before
    machine = node.upgrade(new, tmp_path)
    machine.prepare(new)
    machine.prepare(old)
    machine.apply(new)
    assert node.state() == after
    for path in changing.root.glob("etc/apt/sources.list.d/*"):
        path.unlink()
    machine.apply(old)
    assert node.state() == before


def test_what_a_site_has_besides_comes_in_the_next_branch_and_back(
    changing: real.System, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("gpusmith.upgrade.on_machine.FOLDER", str(tmp_path / "saved"))
    old, new = "580.178.04", "595.91.07"
    node = Node(changing, {**ASKED, "version": old, "package_layout": "nvidia", "module_build": "dkms"})
    changing.configure()
    assert not node.ask("gpusmith.gpu.packages", node.asked(old)).get("failed")
    there = [name for name in BESIDES if name != "libnvidia-gone-580"]
    changing.apt.install(dict.fromkeys(there, ""))
    assert node.ask("gpusmith.gpu.packages", node.asked(old))["changed"]
    before = node.state()
    assert before["libnvidia-decode-580"] == before["libnvidia-nscq-580"] == (old, True)
    machine = node.upgrade(new, tmp_path)
    machine.prepare(new)
    machine.prepare(old)
    assert node.state() == before
    machine.apply(new)
    after = node.state()
    assert set(after) == {name for name, _version, _fields in without_branch(new, "")}
    assert after["libnvidia-decode"] == after["libnvidia-nscq"] == (new, True)
    # What the role asks for then is there.
    assert node.ask("gpusmith.gpu.packages", node.asked(new)) == {"saved": {}, "changed": False}
    for path in changing.root.glob("etc/apt/sources.list.d/*"):
        path.unlink()
    machine.apply(old)
    assert node.state() == before


def test_what_the_next_branch_does_not_have_is_refused_by_name_before_anything_is_changed(
    changing: real.System, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("gpusmith.upgrade.on_machine.FOLDER", str(tmp_path / "saved"))
    old, new = "580.178.04", "595.91.07"
    node = Node(changing, {**ASKED, "version": old, "package_layout": "nvidia", "module_build": "dkms"})
    changing.configure()
    assert not node.ask("gpusmith.gpu.packages", node.asked(old)).get("failed")
    changing.apt.install({"libnvidia-gone-580": ""})
    before = node.state()
    told = (
        "'libnvidia-gone-580' is installed, and no repository offers 'libnvidia-gone-595' or 'libnvidia-gone'"
        " in version '595.91.07' for it"
    )
    with pytest.raises(ToolError, match=told):
        node.upgrade(new, tmp_path).prepare(new)
    assert told in str(node.ask("gpusmith.gpu.packages", node.asked(new))["msg"])
    # Preflight tells it as well.
    assert previewed(changing, node.asked(new))["lacking"] == [told]
    assert node.state() == before


HERE = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}


@pytest.mark.parametrize(
    ("asked", "layout", "version"),
    [
        ("580", "nvidia", "580.178.04"),
        ("latest", "nvidia", "595.91.07"),
        ("latest", "distribution", NEW),
    ],
)
def test_versions_of_a_branch_are_asked_of_the_repository(
    tmp_path: Path, repository: dict[str, Any], asked: str, layout: str, version: str
) -> None:
    variables = {f"nvidia_driver_{key}": value for key, value in ASKED.items() if key != "node"}
    variables |= {"nvidia_driver_version": asked, "nvidia_driver_package_layout": layout}
    variables["nvidia_driver_module_build"] = "prebuilt" if layout == "distribution" else "dkms"
    ask = {
        "gpusmith.gpu.driver_offers": {
            "record": with_driver([], NEW),
            "repository": repository["given"],
        },
        "register": "offers",
        "vars": {"ansible_facts": dict(SYSTEMS["Ubuntu 24"]), **variables},
    }
    choose = {"gpusmith.gpu.driver_version": {"offers": "offers"}, "register": "choice", "run_once": True}
    told = {"ansible.builtin.debug": {"msg": "CHOSEN={{ choice.hosts['gpu-1'] | to_json }}"}}
    status, output = play(tmp_path, {"gpu-1": HERE}, {"tasks": [ask, choose, told]})
    assert status == 0, output
    assert f'"version": "{version}"' in output.replace("\\", "")
