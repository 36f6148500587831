"""The backend against the machine's own apt and dpkg, in a system of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import (
    base,
    manifests,
    preview,
)
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.folder_work import FolderWork
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.openpgp import fingerprints
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.repositories import repository_of

from tests.unit.plugins.packages.test_module import DEFAULTS

from .conftest import System

OLD, NEW = "580.178.04-1", "595.71.05-1"
PINS = {"drv-*": [OLD]}


def test_a_repository_is_asked_aside_and_nothing_stays(system: System) -> None:
    before = sorted(system.root.rglob("*"))
    with system.apt.aside({"test": system.repository}) as asked:
        assert asked.offered(["drv-cuda", "nothing"]) == {"drv-cuda": [NEW, OLD]}
    assert system.apt.offered(["drv-cuda"]) == {}
    assert sorted(system.root.rglob("*")) == before


def test_keys_that_apt_puts_aside_vanish(
    system: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes a key that stands in a source to a file of its own, which it leaves there more often than not."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    folder.chmod(0o1777)
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    system.configure()
    for _ in range(4):
        system.apt.refresh("test")
        with system.apt.aside({"test": system.repository}, beside_node=True) as beside:
            assert beside.offered(["drv-cuda"])
    assert list(folder.iterdir()) == []


def test_what_a_machine_does_after_an_update_waits_for_one_of_all_sources(
    system: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ubuntu notes when all lists were read, and tells what can be upgraded by that; AppStream's hook may fail."""
    stamp, hooks = tmp_path / "update-success-stamp", tmp_path / "hooks.conf"
    hooks.write_text(
        f'APT::Update::Post-Invoke-Success {{ "touch {stamp}"; }};\nAPT::Update::Post-Invoke {{ "echo of the site; false"; }};\n'
    )
    monkeypatch.setenv("APT_CONFIG", str(hooks))
    system.configure()
    with system.apt.aside({"test": system.repository}) as asked:
        assert asked.offered(["drv-cuda"])
    with system.apt.aside({"test": system.repository}, beside_node=True) as beside:
        assert (beside.trouble, beside.simulate({"drv-tool": OLD}, {}).installed) == ("", {"drv-tool": OLD})
    assert not stamp.exists()
    with pytest.raises(base.PackageError, match="of the site"):
        system.apt.refresh()
    assert stamp.exists()


@pytest.mark.parametrize("how", ["another key", "another fingerprint", "dead address"])
def test_a_wrong_repository_is_refused(system: System, how: str) -> None:
    given = dict(system.given)
    if how == "another key":
        given["key"] = system.wrong_key
    elif how == "another fingerprint":
        given["fingerprint"] = fingerprints(system.wrong_key)[0]
    else:
        given["uris"] = ["file:/nonexistent-repository"]
    words = {
        "another key": "not signed|NO_PUBKEY",
        "another fingerprint": "fingerprint",
        "dead address": "nonexistent",
    }
    with (
        pytest.raises(base.PackageError, match=words[how]),
        system.apt.aside({"test": repository_of(given, "test")}) as asked,
    ):
        asked.offered(["drv-cuda"])


def test_the_right_fingerprint_passes_with_spaces(system: System) -> None:
    (found,) = fingerprints(system.given["key"])
    assert len(found) == 40
    spaced = " ".join(found[at : at + 4] for at in range(0, 40, 4)).lower()
    assert repository_of({**system.given, "fingerprint": spaced}, "test").key == system.given["key"].strip()


def test_pins_keep_a_newer_version_away_from_what_comes_along(system: System) -> None:
    system.configure()
    # Named alone it is not even installable, and what it needs without a version comes in the newest one.
    with pytest.raises(base.PackageError, match="drv-libs"):
        system.apt.simulate({"drv-cuda": OLD}, {})
    assert system.apt.simulate({"drv-cuda": OLD, "drv-libs": OLD}, {}).installed["drv-tool"] == NEW
    pinned = system.apt.simulate({"drv-cuda": OLD}, PINS)
    assert pinned == base.Plan({"drv-cuda": OLD, "drv-libs": OLD, "drv-tool": OLD}, {}, {})
    system.write(system.apt.pin_files("test", PINS))
    assert system.apt.simulate({"drv-cuda": OLD}, {}) == pinned


def test_a_pin_by_source_reaches_what_no_pattern_of_names_does(system: System) -> None:
    system.configure()
    assert system.apt.simulate({"codec": ""}, {}).installed == {"codec": NEW}
    assert system.apt.simulate({"codec": ""}, {"src:drv-*": [OLD]}).installed == {"codec": OLD}


def test_a_toolkit_without_its_library_is_not_installable_and_the_whole_set_is(system: System) -> None:
    system.configure()
    alone = {"kit": "1.20.1-1", "kit-base": "1.20.1-1"}
    with pytest.raises(base.PackageError, match="kit-tools"):
        system.apt.simulate(alone, {name: [version] for name, version in alone.items()})
    whole = dict.fromkeys(["kit", "kit-base", "kit-tools", "kit-library"], "1.20.1-1")
    assert system.apt.simulate(whole, {}).installed == whole


def test_a_simulation_beside_the_node_needs_no_repository_on_it(system: System) -> None:
    with system.apt.aside({"test": system.repository}, beside_node=True) as asked:
        assert asked.simulate({"drv-cuda": OLD}, PINS).installed["drv-tool"] == OLD


def test_an_unmet_dependency_is_named(system: System) -> None:
    system.configure()
    with pytest.raises(base.PackageError, match="nowhere-to-be-found"):
        system.apt.simulate({"broken": "1.0-1"}, {})


def test_a_set_goes_there_and_back_and_away(changing: System) -> None:
    apt = changing.apt
    changing.configure()
    changing.write(apt.pin_files("test", PINS))
    apt.install({"drv-cuda": OLD})
    apt.hold({"drv-cuda": OLD, "drv-libs": OLD})
    assert apt.installed(["drv-*"]) == {
        "drv-cuda": base.Installed(OLD, True, "drv-cuda"),
        "drv-libs": base.Installed(OLD, True, "drv-libs"),
        "drv-tool": base.Installed(OLD, False, "drv-tool"),
    }
    assert apt.owner("/opt/drv-libs") == "drv-libs"
    assert apt.owner("/opt/nobody") is None
    # To a newer set, past holds, and what conflicts with it is told before.
    changing.write(apt.pin_files("test", {"drv-*": [NEW]}))
    everything = dict.fromkeys(["drv-cuda", "drv-libs", "drv-tool"], NEW)
    assert apt.simulate(everything, {}).changed == dict.fromkeys(everything, (OLD, NEW))
    apt.install(everything)
    assert {package.version for package in apt.installed(["drv-*"]).values()} == {NEW}
    assert apt.simulate({"other": "1.0-1"}, {}).removed == {"drv-cuda": NEW}
    apt.release(["drv-cuda"])
    assert not apt.installed(["drv-cuda"])["drv-cuda"].held
    apt.remove(["drv-cuda"])
    assert sorted(apt.installed(["drv-*"])) == ["drv-libs", "drv-tool"]


def test_what_came_along_goes_with_what_needed_it(changing: System) -> None:
    changing.configure()
    changing.write(changing.apt.pin_files("test", PINS))
    changing.apt.install({"drv-cuda": OLD})
    changing.apt.hold({"drv-cuda": OLD})
    changing.apt.remove(["drv-cuda"], unused=True)
    assert changing.apt.installed(["drv-*"]) == {}


def test_a_removal_brings_nothing_either(changing: System) -> None:
    """Apt by itself would bring what else a package of others can do with."""
    changing.configure()
    changing.apt.install({"runtime": "", "engine": ""})
    before = changing.apt.installed(["*"])
    with pytest.raises(
        base.PackageError, match=r"install 'runtime.io' \(2.3.7-1\)|remove 'engine' \(20.10-1\)"
    ):
        changing.apt.remove(["runtime"])
    assert changing.apt.installed(["*"]) == before


def configured(system: System) -> Path:
    """The folder of a daemon's configuration files, of which a person edited one and deleted another one."""
    system.configure()
    system.apt.install({"daemon": ""})
    folder = system.root / "etc/daemon"
    (folder / "edited.conf").write_text("of the site\n")
    (folder / "edited.conf").chmod(0o750)
    (folder / "gone.conf").unlink()
    return folder


def test_configuration_files_stay(changing: System) -> None:
    folder = configured(changing)
    assert changing.apt.remove(["daemon"]) == {"daemon": "1.0-1"}
    assert sorted(path.name for path in folder.iterdir()) == ["edited.conf", "plain.conf"]
    assert (folder / "edited.conf").read_text() == "of the site\n"


def test_what_is_still_there_after_a_removal_that_failed_is_held_as_before(changing: System) -> None:
    configured(changing)
    changing.apt.install({"drv-cuda": NEW, "drv-libs": NEW})
    changing.apt.hold({"daemon": "1.0-1", "drv-cuda": NEW})
    (changing.root / "var/lib/dpkg/info/daemon.prerm").write_text("no program\n")
    (changing.root / "var/lib/dpkg/info/daemon.prerm").chmod(0o755)
    with pytest.raises(base.PackageError):
        changing.apt.remove(["daemon", "drv-cuda", "drv-libs"])
    found = changing.apt.installed(["daemon", "drv-*"])
    assert found["daemon"].held
    assert {name for name, package in found.items() if package.held} <= {"daemon", "drv-cuda"}


def test_saved_packages_bring_a_version_back_without_a_repository(changing: System, tmp_path: Path) -> None:
    apt, folder = changing.apt, tmp_path / "saved"
    changing.configure()
    wanted = {**dict.fromkeys(["drv-cuda", "drv-libs", "drv-tool"], OLD), "epoch": "1:2.0-1"}
    saved = apt.fetch(wanted, folder)
    assert {each.name: each.version for each in saved} == wanted
    manifest = json.loads((folder / manifests.MANIFEST).read_text())
    assert manifest["manager"] == "apt"
    assert [each["sha256"] for each in manifest["packages"]] == [
        manifests.digest(folder / each.file) for each in saved
    ]
    stamp = (folder / manifests.MANIFEST).stat().st_mtime_ns
    assert apt.fetch(wanted, folder) == saved
    assert (folder / manifests.MANIFEST).stat().st_mtime_ns == stamp
    apt.install(dict.fromkeys(["drv-cuda", "drv-libs", "drv-tool"], NEW))
    # The repository is gone, and a pin says something else.
    for path in [
        *changing.root.glob("etc/apt/sources.list.d/*"),
        *changing.root.glob("var/lib/apt/lists/*_*"),
    ]:
        path.unlink()
    changing.write(apt.pin_files("test", {"drv-*": [NEW]}))
    apt.install_from(folder)
    assert {name: package.version for name, package in apt.installed(wanted).items()} == wanted


def test_what_has_a_file_of_what_comes_goes_in_the_same_step(changing: System, tmp_path: Path) -> None:
    changing.configure()
    older, newer = {"fabric-580": "580.178.04-1"}, {"fabric-595": "595.71.05-1"}
    for versions, name in ((older, "older"), (newer, "newer")):
        changing.apt.fetch(versions, tmp_path / name)
    changing.apt.install(older)
    with pytest.raises(base.PackageError, match="trying to overwrite '/opt/nv-fabric'"):
        changing.apt.install(newer)
    changing.apt.repair()
    changing.apt.install(newer, displaced=["fabric-580"])
    assert list(changing.apt.installed(["fabric-*"])) == ["fabric-595"]
    changing.apt.install_from(tmp_path / "older", ["fabric-595"])
    assert list(changing.apt.installed(["fabric-*"])) == ["fabric-580"]


def test_a_spoiled_or_unfinished_folder_is_not_installed(system: System, tmp_path: Path) -> None:
    system.configure()
    folder = tmp_path / "saved"
    (one,) = system.apt.fetch({"drv-libs": OLD}, folder)
    (folder / one.file).write_bytes(b"something else")
    with pytest.raises(base.PackageError, match=r"not what 'manifest\.json' says"):
        system.apt.install_from(folder)
    (folder / manifests.MANIFEST).unlink()
    with pytest.raises(base.PackageError, match="not complete"):
        system.apt.install_from(folder)
    # Asked for anew, it is whole again.
    assert system.apt.fetch({"drv-libs": OLD}, folder)[0].sha256 == one.sha256


def test_what_a_killed_run_was_downloading_keeps_no_other_set_from_being_saved(
    system: System, tmp_path: Path
) -> None:
    """Apt-get downloads under the name of the whole file."""
    system.configure()
    folder = tmp_path / "saved"
    folder.mkdir()
    for name in ("drv-libs_9-1_all.deb", "other_1_all.deb"):
        (folder / name).write_bytes(b"!<arch>\n")
    (saved,) = system.apt.fetch({"drv-libs": OLD}, folder)
    assert sorted(path.name for path in folder.glob("*.deb")) == [saved.file]


def test_what_is_nowhere_cannot_be_saved(system: System, tmp_path: Path) -> None:
    system.configure()
    with pytest.raises(
        base.PackageError, match=r"nor '.*/var/cache/apt/archives' has 'drv-libs' in version '1\.0-1'"
    ):
        system.apt.fetch({"drv-libs": "1.0-1", "drv-tool": OLD}, tmp_path / "saved")
    assert not (tmp_path / "saved" / manifests.MANIFEST).exists()


def test_what_no_repository_has_any_more_is_saved_from_the_cache(system: System, tmp_path: Path) -> None:
    (uri,) = system.given["uris"]
    cache = system.root / "var/cache/apt/archives"
    for file in Path(uri.removeprefix("file:")).glob("epoch_*.deb"):
        (cache / file.name).write_bytes(file.read_bytes())
    # One whose name lies is none.
    (cache / f"drv-libs_{OLD}_all.deb").write_bytes((cache / "epoch_1%3a2.0-1_all.deb").read_bytes())
    (saved,) = system.apt.fetch({"epoch": "1:2.0-1"}, tmp_path / "saved")
    assert (saved.name, saved.version, saved.sha256) == (
        "epoch",
        "1:2.0-1",
        manifests.digest(tmp_path / "saved" / saved.file),
    )
    with pytest.raises(base.PackageError, match="did not save drv-libs"):
        system.apt.fetch({"drv-libs": OLD}, tmp_path / "other")


@pytest.mark.parametrize("state", ["ok unpacked", "reinstreq unpacked", "reinstreq half-installed"])
def test_what_was_left_half_done_is_finished(changing: System, state: str) -> None:
    """dpkg configures nothing that was cut off while it was unpacked, and asks for it to be installed anew."""
    apt = changing.apt
    changing.configure()
    assert apt.repair() is False
    apt.install({"drv-libs": OLD})
    status = changing.root / "var/lib/dpkg/status"
    status.write_text(status.read_text().replace("install ok installed", f"install {state}"))
    assert apt.installed(["drv-libs"]) == {}
    assert apt.repair() is True
    assert apt.installed(["drv-libs"])["drv-libs"].version == OLD


# --- sets in a folder ----------------------------------------------------------------------------------------------

KITS = {"packages": {"kit": "1.20.1"}, "patterns": ["kit*"]}


def work(system: System, params: dict[str, Any], check: bool = False) -> Any:
    return FolderWork({**DEFAULTS, "name": "test", "repository": system.given, **params}, check, system.apt)


def versions(system: System, *names: str) -> dict[str, str]:
    return {name: package.version for name, package in system.apt.installed(names).items()}


def test_a_set_that_is_to_come_is_saved_with_what_it_pulls_in(system: System, tmp_path: Path) -> None:
    folder, before = tmp_path / "target", sorted(system.root.rglob("*"))
    predicted = work(system, {**KITS, "repository": None}, check=True)
    predicted.fetched(folder)
    assert (predicted.changed, folder.exists()) == (True, False)
    fetched = work(system, KITS)
    fetched.fetched(folder)
    assert fetched.changed
    assert fetched.saved == dict.fromkeys(KIT, "1.20.1-1")
    # Neither repository nor lists of the node were written.
    assert sorted(path for path in system.root.rglob("*") if folder not in (path, *path.parents)) == before
    again = work(system, {**KITS, "repository": {**system.given, "uris": ["file:/nonexistent-repository"]}})
    again.fetched(folder)
    assert (again.changed, again.saved) == (False, fetched.saved)


def test_a_set_that_is_there_comes_back_from_its_folder_and_nothing_else(
    changing: System, tmp_path: Path
) -> None:
    kit = {**KITS, "companions": ["epoch"]}
    changing.configure()
    changing.apt.install({"epoch": "1:2.0-1", "drv-tool": NEW})
    work(changing, kit).present()
    there = versions(changing, "kit*", "epoch")
    folder = tmp_path / "present"
    # As an earlier change saved it, before the companion came.
    work(changing, KITS).fetched(folder)
    assert "epoch" not in {each.name for each in manifests.read(folder, "apt")}
    work(changing, kit).fetched(folder)
    assert {each.name: each.version for each in manifests.read(folder, "apt")} == there
    work(changing, {**kit, "packages": {"kit": "1.21.0"}, "release": list(KIT)}).present()
    assert versions(changing, "kit*") == dict.fromkeys(KIT, "1.21.0-1")
    # The repository is gone, and so is one package.
    changing.write(
        [base.File(changing.root / "etc/apt/sources.list", "deb file:/nonexistent-repository ./\n")]
    )
    changing.apt.remove(["epoch"])
    dead = {**kit, "repository": {**changing.given, "uris": ["file:/nonexistent-repository"]}}
    predicted = work(changing, dead, check=True)
    predicted.from_folder(folder)
    assert predicted.changed
    assert versions(changing, "kit") == {"kit": "1.21.0-1"}
    back = work(changing, dead)
    back.from_folder(folder)
    assert back.packages["kit"] == {"before": "1.21.0-1", "after": "1.20.1-1"}
    assert versions(changing, "kit*", "epoch") == there
    assert all(package.held for package in changing.apt.installed(["kit*", "epoch"]).values())
    assert "Pin: version 1.20.1-1" in (changing.root / "etc/apt/preferences.d/gpusmith-test.pref").read_text()
    assert "nonexistent" not in (changing.root / "etc/apt/sources.list.d/gpusmith-test.sources").read_text()
    again = work(changing, dead)
    again.from_folder(folder)
    assert not again.changed


def test_a_set_that_replaces_a_held_one_is_saved_whole(changing: System, tmp_path: Path) -> None:
    driver = {"packages": {"drv-cuda": "595.71.05"}, "patterns": ["drv-*"]}
    changing.configure()
    work(changing, driver).present()
    # Back by downgrade: pins and holds of today must not keep what is needed without a version.
    older = {
        **driver,
        "packages": {"drv-cuda": "580.178.04"},
        "release": ["drv-cuda", "drv-libs", "drv-tool"],
    }
    fetched = work(changing, older)
    fetched.fetched(tmp_path / "older")
    assert fetched.saved == dict.fromkeys(["drv-cuda", "drv-libs", "drv-tool"], OLD)
    work(changing, older).from_folder(tmp_path / "older")
    assert versions(changing, "drv-*") == fetched.saved


def test_a_folder_with_another_set_changes_nothing(changing: System, tmp_path: Path) -> None:
    changing.configure()
    work(changing, KITS).fetched(tmp_path)
    with pytest.raises(base.PackageError, match=r"has 'kit' in version '1\.20\.1-1', not '1\.21\.0'"):
        work(changing, {**KITS, "packages": {"kit": "1.21.0"}}).from_folder(tmp_path)
    with pytest.raises(base.PackageError, match="not complete"):
        work(changing, KITS).from_folder(tmp_path / "none")
    assert versions(changing, "kit*") == {}
    assert not (changing.root / "etc/apt/preferences.d/gpusmith-test.pref").exists()


def test_a_set_that_can_be_had_nowhere_is_named(changing: System, tmp_path: Path) -> None:
    changing.configure()
    work(changing, KITS).present()
    for path in changing.root.glob("etc/apt/sources.list.d/*"):
        path.unlink()
    empty = {**KITS, "repository": {**changing.given, "uris": ["file:/nonexistent-repository"]}}
    with pytest.raises(base.PackageError, match=r"'kit' in version '1\.20\.1-1'.*nonexistent-repo"):
        work(changing, empty).fetched(tmp_path / "saved")
    # Another one of the inventory's has it.
    work(changing, KITS).fetched(tmp_path / "saved")


# --- what preflight asks for ---------------------------------------------------------------------------------------

KIT = dict.fromkeys(["kit", "kit-base", "kit-tools", "kit-library"], "1.20.1")


def previewed(system: System, *packages: dict[str, str], **more: Any) -> dict[str, Any]:
    asks = {
        f"role{at}": {"name": f"set{at}", "repository": system.given, "packages": each, **more}
        for at, each in enumerate(packages)
    }
    lacks = {role: preview.needs(system.apt, asked) for role, asked in asks.items()}
    repositories = {asked["name"]: system.repository for asked in asks.values()}
    with system.apt.aside(repositories, beside_node=True) as beside:
        found: dict[str, Any] = preview.simulate(beside, asks, lacks)
    return found


def test_all_sets_are_simulated_at_once_and_nothing_stays(system: System) -> None:
    before = sorted(system.root.rglob("*"))
    found = previewed(system, KIT, {"drv-cuda": "580.178.04"}, patterns=["drv-*"])
    assert found["error"] == ""
    assert found["plan"]["installed"] == {
        **dict.fromkeys(KIT, "1.20.1-1"),
        **dict.fromkeys(["drv-cuda", "drv-libs", "drv-tool"], OLD),
    }
    assert sorted(system.root.rglob("*")) == before


def test_a_gap_is_named_before_anything_is_changed(system: System) -> None:
    assert "nowhere-to-be-found" in previewed(system, KIT, {"broken": "1.0"})["error"]
    without_library = {name: version for name, version in KIT.items() if name in ("kit", "kit-base")}
    assert "kit-tools" in previewed(system, without_library)["error"]


def left_by_a_killed_run(system: System, state: str, lost: str) -> None:
    """All that is installed is in that state, but for one package, which had not come yet."""
    status = system.root / "var/lib/dpkg/status"
    left = [part for part in status.read_text().split("\n\n") if f"Package: {lost}" not in part]
    status.write_text("\n\n".join(left).replace("install ok installed", f"install {state}"))


@pytest.mark.parametrize(
    "state", ["ok unpacked", "ok half-configured", "reinstreq unpacked", "reinstreq half-installed"]
)
def test_what_a_killed_installation_left_is_no_gap(changing: System, state: str) -> None:
    """A machine that lost power while packages were unpacked or configured, and some of them had not come yet."""
    changing.configure()
    changing.apt.install({"drv-cuda": OLD, "drv-libs": OLD, "drv-tool": OLD})
    left_by_a_killed_run(changing, state, "drv-libs")
    found = previewed(changing, KIT, {"drv-cuda": "580.178.04"}, patterns=["drv-*"])
    assert (found["error"], found["plan"]["removed"]) == ("", {})
    assert {"drv-libs", "kit"} <= set(found["plan"]["installed"])
    work(changing, {"packages": {"drv-cuda": "580.178.04"}, "patterns": ["drv-*"]}).present()
    assert versions(changing, "drv-cuda", "drv-libs") == dict.fromkeys(["drv-cuda", "drv-libs"], OLD)


def test_what_a_killed_installation_of_others_left_is_named(changing: System) -> None:
    changing.configure()
    changing.apt.install({"engine": "20.10-1", "runtime": "1.6.20-1"})
    left_by_a_killed_run(changing, "ok unpacked", "runtime")
    found = previewed(changing, KIT)
    assert "left engine incomplete. Run 'apt-get --fix-broken install'" in found["error"]


def test_a_version_that_nobody_offers_hides_no_other_gap(system: System) -> None:
    found = previewed(system, {"kit": "9.9.9"}, {"broken": "1.0"})
    assert "nowhere-to-be-found" in found["error"]


def test_what_would_go_is_named_with_what_depends_on_it(changing: System) -> None:
    changing.configure()
    changing.apt.install({"runtime": "1.6.20-1", "engine": "20.10-1"})
    found = previewed(changing, {"runtime.io": "2.3.7"})
    # What others provide has no version, so that who needs one goes as well.
    assert found["plan"]["removed"] == {"runtime": "1.6.20-1", "engine": "20.10-1"}


def test_a_held_package_in_the_way_is_named(changing: System) -> None:
    changing.configure()
    changing.apt.install({"drv-tool": NEW, "drv-libs": NEW})
    changing.apt.hold({"drv-libs": NEW})
    assert "drv-libs" in previewed(changing, {"drv-cuda": "580.178.04"}, patterns=["drv-*"])["error"]
    # The role lets go of what it replaces first.
    for release in (["drv-libs"], []):
        found = previewed(changing, {"drv-cuda": "580.178.04"}, patterns=["drv-*"], release=release)
        assert found["plan"]["changed"]["drv-libs"] == (NEW, OLD)
        assert found["held"] == release
        changing.apt.release(["drv-libs"])


def test_pins_of_an_administrator_count_and_our_own_of_yesterday_do_not(system: System) -> None:
    system.write(system.apt.pin_files("set0", {"drv-tool": [NEW]}))
    assert (
        previewed(system, {"drv-cuda": "580.178.04"}, patterns=["drv-*"])["plan"]["installed"]["drv-tool"]
        == OLD
    )
    (system.root / "etc/apt/preferences").write_text("Package: drv-tool\nPin: version *\nPin-Priority: -1\n")
    assert "drv-tool" in previewed(system, {"drv-cuda": "580.178.04", "drv-libs": "580.178.04"})["error"]


def test_a_mirror_that_is_down_is_told_and_only_that(system: System) -> None:
    (system.root / "etc/apt/sources.list").write_text("deb [trusted=yes] file:/nonexistent-mirror ./\n")
    found = previewed(system, KIT)
    assert found["error"] == ""
    assert "nonexistent-mirror" in found["trouble"]


def test_the_same_source_with_another_key_of_somebody_is_found(system: System) -> None:
    """As where Docker's own instructions were followed before: apt then reads nothing at all."""
    key = system.root / "etc/apt/docker.asc"
    key.write_text(system.wrong_key)
    (uri,) = system.given["uris"]
    there = system.root / "etc/apt/sources.list.d/docker.list"
    there.write_text(f"deb [signed-by={key}] {uri} ./\n")
    (there.parent / "other.list").write_text(f"# deb {uri} ./\n")
    told = previewed(system, KIT)["error"]
    assert f"The machine has this repository with another key, in '{there}'. Remove it there" in told
    assert told.count("Conflicting values") == 1


def test_a_source_with_another_key_than_the_nodes_own_does_not_stay(system: System) -> None:
    """As on Debian 13, of which the installer names the keys of the archive: the whole of apt would be out of order."""
    own = system.root / "etc/apt/archive.asc"
    own.write_text(system.given["key"])
    (uri,) = system.given["uris"]
    there = system.root / "etc/apt/sources.list.d/site.sources"
    there.write_text(f"Types: deb\nURIs: {uri.rstrip('/')}\nSuites: ./\nSigned-By: {own}\n")
    asked = {**DEFAULTS, "name": "test", "repository": system.given, "packages": {"drv-libs": "580.178.04"}}
    with pytest.raises(base.PackageError, match=f"with another key, in '{there}'"):
        FolderWork(asked, False, system.apt).present()
    assert sorted(path.name for path in (system.root / "etc/apt/sources.list.d").iterdir()) == [
        "site.sources"
    ]
    system.apt.refresh()


def test_a_lost_hold_needs_no_repository(changing: System) -> None:
    changing.configure()
    changing.apt.install({"kit-base": "1.20.1-1"})
    asked = {"name": "test", "repository": changing.given, "packages": {"kit-base": "1.20.1"}}
    assert preview.needs(changing.apt, asked) == preview.Needs({}, [], {"kit-base": "1.20.1-1"}, False)
    other = {**asked, "repository": {**changing.given, "suites": ["other/"]}}
    assert preview.needs(changing.apt, other).repository
