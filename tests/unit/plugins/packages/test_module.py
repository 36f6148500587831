"""What the module does and tells, over a package manager that remembers what it was asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils import packages as door
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import (
    base,
    manifests,
    others,
    removals,
)
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.folder_work import FolderWork
from ansible_collections.gpusmith.gpu.plugins.modules import packages

from gpusmith.probe import kubernetes as probe
from tests.unit.keys import KEY, OTHER_KEY

REPOSITORY = {"uris": ["http://depot/"], "suites": ["./"], "components": [], "key": KEY}
OLD, NEW = "580.178.04-1", "595.71.05-1"
LISTS = {
    "smi": [NEW, OLD], "lib": [NEW, OLD], "container": ["1.20.1-1"], "modprobe": ["535.1-1"], "cuda-toolkit-12-8": ["12.8.1-1"],
}  # fmt: skip
QUESTIONS = ("installed", "offered", "simulate", "removal")


class Machine:
    """A backend that keeps packages in a dictionary. Installing 'smi' brings 'lib' in the same version."""

    name = "apt"

    def __init__(self, folder: Path, packages: dict[str, base.Installed] | None = None) -> None:
        self.folder = folder
        self.packages = packages or {}
        self.lists: dict[str, list[str]] = dict(LISTS)
        self.after_refresh: dict[str, list[str]] = {}
        self.asked: list[str] = []
        self.simulated: list[tuple[list[str], list[str], bool]] = []
        self.pinned: list[bool] = []
        self.erased: list[bool] = []
        self.unpredictable = ""
        self.would_remove: dict[str, str] = {}
        self.would_change: dict[str, tuple[str, str]] = {}
        self.unreadable = ""
        self.disagree = ""
        self.fails_from_now_on = ""
        self.dependents: dict[str, str] = {}

    @property
    def changes(self) -> list[str]:
        return [name for name in self.asked if name not in QUESTIONS]

    def installed(self, names: Iterable[str]) -> dict[str, base.Installed]:
        self.asked.append("installed")
        wanted = list(names)
        return {
            name: package
            for name, package in self.packages.items()
            if base.alike(name, package.source, wanted)
        }

    def offered(self, names: Iterable[str]) -> dict[str, list[str]]:
        self.asked.append("offered")
        return {name: self.lists[name] for name in names if name in self.lists}

    def refresh(self, owner: str | None = None) -> None:
        self.asked.append(f"refresh {owner or 'all'}")
        if self.unreadable:
            raise base.PackageError(self.unreadable)
        if owner is None:
            self.lists.update(self.after_refresh)

    def agree(self) -> None:
        if self.disagree:
            raise base.PackageError(self.disagree)

    def repository_files(self, owner: str, repository: Any) -> list[base.File]:
        return [base.File(self.folder / f"{owner}.sources", repository.key if repository else None)]

    def pin_files(self, owner: str, pins: Mapping[str, Any]) -> list[base.File]:
        text = "".join(f"{name} {' '.join(versions)}\n" for name, versions in sorted(pins.items()))
        return [base.File(self.folder / f"{owner}.pref", text or None)]

    def simulate(
        self, versions: Mapping[str, str], _pins: Any, released: Sequence[str] = (),
        displaced: Sequence[str] = (), reads: bool = False,
    ) -> base.Plan:  # fmt: skip
        self.asked.append("simulate")
        self.simulated.append((list(released), list(displaced), reads))
        # The pins are there before, where they are to be there at all.
        self.pinned.append((self.folder / "drv.pref").exists())
        if self.unpredictable:
            raise base.PackageError(self.unpredictable)
        gone = {name: self.packages[name].version for name in displaced}
        return base.Plan(dict(versions), self.would_change, {**self.would_remove, **gone})

    def simulate_from(
        self, folder: Path, pins: Any, released: Sequence[str] = (), displaced: Sequence[str] = ()
    ) -> base.Plan:
        saved = {each.name: each.version for each in manifests.read(folder, self.name)}
        return self.simulate(saved, pins, released, displaced=displaced)

    def blocked(self) -> str:
        return self.fails_from_now_on

    def repair(self) -> bool:
        self.asked.append("repair")
        return False

    def install(
        self,
        versions: Mapping[str, str],
        displaced: Sequence[str] = (),
        erase: bool = True,
    ) -> None:
        self.asked.append(" ".join(["install", *(f"{name}-" for name in displaced)]))
        self.erased.append(erase)
        for name in displaced:
            del self.packages[name]
        if "smi" in versions:
            versions = {**versions, "lib": versions["smi"]}
        for name, version in versions.items():
            held = name in self.packages and self.packages[name].held
            self.packages[name] = base.Installed(version or self.lists[name][0], held)

    def install_from(self, folder: Path, displaced: Sequence[str] = (), erase: bool = True) -> None:
        saved = {each.name: each.version for each in manifests.read(folder, self.name)}
        self.install(saved, displaced=displaced, erase=erase)

    def _mark(self, names: Iterable[str], held: bool) -> None:
        for name in names:
            self.packages[name] = self.packages[name]._replace(held=held)

    def hold(self, versions: Mapping[str, str]) -> None:
        self.asked.append(f"hold {' '.join(sorted(versions))}")
        assert all(self.packages[name].version == version for name, version in versions.items())
        self._mark(versions, held=True)

    def release(self, names: Iterable[str]) -> None:
        listed = list(names)
        self.asked.append(f"release {' '.join(sorted(listed))}")
        self._mark(listed, held=False)

    def fetch(self, versions: Mapping[str, str], folder: Path) -> list[base.Saved]:
        saved: list[base.Saved] = manifests.complete(folder, self.name, versions, self.save)
        return saved

    def save(self, versions: Mapping[str, str], folder: Path) -> list[base.Saved]:
        self.asked.append(f"fetch {' '.join(sorted(versions))}")
        lost = [name for name, version in versions.items() if version not in self.lists.get(name, [])]
        if lost:
            raise base.PackageError(f"Nobody has '{lost[0]}'.")
        for name, version in versions.items():
            (folder / f"{name}_{version}.deb").write_text(f"{name} {version}")
        return [
            base.Saved(name, version, path.name, manifests.digest(path))
            for name, version in versions.items()
            for path in folder.glob(f"{name}_*")
        ]

    @contextmanager
    def aside(self, repositories: Any, beside_node: bool = False) -> Iterator[Machine]:
        self.asked.append(f"aside {' '.join(repositories)}")
        yield self

    def removal(self, names: Iterable[str], unused: bool = False) -> dict[str, str]:
        self.asked.append("removal")
        listed = list(names)
        removals.refuse_others(base.Plan({}, {}, self.dependents), listed)
        listed += ["came-along"] if unused else []
        return {name: self.packages[name].version for name in listed if name in self.packages}

    def remove(self, names: Iterable[str], unused: bool = False) -> dict[str, str]:
        gone = self.removal(names, unused)
        self.asked[-1] = f"remove {' '.join(sorted(gone))}"
        for name in gone:
            del self.packages[name]
        return gone


DEFAULTS: dict[str, Any] = {
    "name": "drv", "repository": REPOSITORY, "packages": {}, "patterns": [], "unversioned": [], "optional": [], "release": [],
    "replaced": [], "displaced": [], "companions": [], "counterparts": [],
    "hold_unversioned": False, "autoremove": False, "removable": [],
}  # fmt: skip
DRIVER: dict[str, Any] = {"packages": {"smi": "580.178.04"}, "patterns": ["smi", "lib", "container"]}


def present(machine: Machine, check: bool = False, serves: bool = False, **params: Any) -> Any:
    machine.asked = []
    work = FolderWork({**DEFAULTS, **params}, check, machine, serves=serves)
    work.present()
    return work


def fetched(machine: Machine, check: bool = False, **params: Any) -> Any:
    machine.asked = []
    work = FolderWork({**DEFAULTS, **params}, check, machine)
    work.fetched(machine.folder / "saved")
    return work


def from_folder(machine: Machine, check: bool = False, serves: bool = False, **params: Any) -> Any:
    machine.asked = []
    work = FolderWork({**DEFAULTS, **params}, check, machine, serves=serves)
    work.from_folder(machine.folder / "saved")
    return work


def absent(machine: Machine, check: bool = False, **params: Any) -> Any:
    machine.asked = []
    work = FolderWork({**DEFAULTS, "repository": None, **params}, check, machine)
    work.absent()
    return work


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_set_is_installed_pinned_and_held_with_what_came_along(machine: Machine) -> None:
    machine.packages["container"] = base.Installed("1.20.1-1", False)
    work = present(machine, **DRIVER)
    assert work.changed
    assert work.packages == {"smi": {"before": None, "after": OLD}}
    # Only the set's own repository is read, and a package that only looks alike is no part of the set.
    assert machine.changes == ["refresh drv", "repair", "install", "hold lib smi"]
    assert (machine.folder / "drv.pref").read_text() == f"container {OLD}\nlib {OLD}\nsmi {OLD}\n"
    assert [Path(each["after_header"]).name for each in work.diff] == ["drv.sources", "drv.pref"]


def test_an_upgrade_that_holds_make_fail_is_told_after_a_change(machine: Machine) -> None:
    machine.fails_from_now_on = "'dnf upgrade' fails, since bystander needs newer ones."
    assert present(machine, **DRIVER).warnings == [machine.fails_from_now_on]
    assert present(machine, **DRIVER).warnings == []


def test_a_second_run_asks_one_question(machine: Machine) -> None:
    present(machine, **DRIVER, unversioned=["modprobe"], hold_unversioned=True)
    work = present(machine, **DRIVER, unversioned=["modprobe"], hold_unversioned=True)
    assert not work.changed
    assert machine.asked == ["installed"]
    assert work.packages == {
        "smi": {"before": OLD, "after": OLD},
        "modprobe": {"before": "535.1-1", "after": "535.1-1"},
    }


def test_a_diff_of_a_file_that_is_not_utf_8_can_be_told(machine: Machine) -> None:
    (machine.folder / "drv.pref").write_bytes("# f\xfcr uns\n".encode("latin-1"))
    before = {Path(each["after_header"]).name: each["before"] for each in present(machine).diff}
    assert before["drv.pref"].encode() == "# f\ufffdr uns\n".encode()


def test_a_new_repository_of_a_node_that_has_everything_is_read(machine: Machine) -> None:
    present(machine, **DRIVER)
    assert present(machine, **DRIVER, repository={**REPOSITORY, "key": OTHER_KEY}).changed
    assert machine.changes == ["refresh drv"]


def test_a_repository_that_cannot_be_read_does_not_stay(machine: Machine) -> None:
    present(machine, **DRIVER)
    machine.unreadable = "NO_PUBKEY"
    with pytest.raises(base.PackageError, match="NO_PUBKEY"):
        present(machine, **DRIVER, repository={**REPOSITORY, "key": OTHER_KEY})
    assert (machine.folder / "drv.sources").read_text() == KEY.strip()
    (machine.folder / "drv.sources").unlink()
    with pytest.raises(base.PackageError, match="NO_PUBKEY"):
        present(machine, **DRIVER)
    assert not (machine.folder / "drv.sources").exists()


def test_a_set_has_what_comes_from_its_source_whatever_its_name(machine: Machine) -> None:
    present(machine, **DRIVER)
    machine.packages["codec"] = base.Installed(OLD, False, "drv-source")
    machine.packages["foreign"] = base.Installed(OLD, False, "foreign")
    present(machine, packages=DRIVER["packages"], patterns=["lib", "src:drv-*"])
    assert machine.changes == ["hold codec"]


def test_companions_are_held_where_they_are_and_never_asked_for(machine: Machine) -> None:
    assert not present(machine, repository=None, companions=["modprobe"]).changed
    machine.packages["modprobe"] = base.Installed("530.1-1", False)
    assert present(machine, repository=None, companions=["modprobe"]).changed
    assert machine.packages["modprobe"] == base.Installed("530.1-1", True)
    assert not present(machine, repository=None, companions=["modprobe"]).changed


def test_a_lost_hold_comes_back_alone(machine: Machine) -> None:
    present(machine, **DRIVER)
    machine.packages["lib"] = base.Installed(OLD, False)
    assert present(machine, **DRIVER).changed
    assert machine.changes == ["hold lib"]


def test_holds_that_cannot_be_put_back_are_named(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.packages = {name: base.Installed(OLD, held=True) for name in ("lib", "smi")}

    def hold(_versions: Mapping[str, str]) -> None:
        raise base.PackageError("No space.")

    def fail() -> None:
        with removals.released(machine, ["lib", "smi"]):
            monkeypatch.setattr(machine, "hold", hold)
            del machine.packages["lib"]
            raise base.BusyError("It is locked.")

    with pytest.raises(base.BusyError, match=r"^It is locked\. Nor can 'smi' be held .*No space\."):
        fail()


def test_another_version_lets_go_of_the_old_one_first(machine: Machine) -> None:
    present(machine, **DRIVER)
    work = present(
        machine, packages={"smi": "595.71.05"}, patterns=DRIVER["patterns"], release=["smi", "lib"]
    )
    assert machine.changes == ["refresh drv", "repair", "release lib smi", "install", "hold lib smi"]
    assert work.packages == {"smi": {"before": OLD, "after": NEW}}
    assert machine.packages["lib"] == base.Installed(NEW, True)


def test_an_installation_that_fails_leaves_what_is_there_held(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    present(machine, **DRIVER)

    def install(*_words: Any, **_options: Any) -> None:
        raise base.PackageError("The disk is full.")

    monkeypatch.setattr(machine, "install", install)
    with pytest.raises(base.PackageError, match="The disk is full"):
        present(machine, packages={"smi": NEW}, patterns=DRIVER["patterns"], release=["smi", "lib"])
    assert {name: machine.packages[name] for name in ("smi", "lib")} == dict.fromkeys(
        ("smi", "lib"), base.Installed(OLD, True)
    )


@pytest.mark.parametrize("there", [OLD, NEW])
def test_a_part_of_another_build_does_not_stay_behind(machine: Machine, there: str) -> None:
    machine.packages = {"smi": base.Installed(there, True), "imex": base.Installed("580.178.04-2", True)}
    machine.lists["imex"] = ["3:595.71.05-2", "580.178.04-2"]
    present(machine, packages={"smi": "595.71.05"}, patterns=["smi", "imex"], release=["smi", "imex"])
    assert machine.packages["imex"] == base.Installed("3:595.71.05-2", True)
    assert not present(machine, packages={"smi": "595.71.05"}, patterns=["smi", "imex"]).changed


def test_what_goes_because_of_the_others_does_not_come_in_another_version(machine: Machine) -> None:
    # As the other kind of module, which conflicts with the one that comes.
    machine.packages = {"smi": base.Installed(OLD, True), "imex": base.Installed(OLD, True)}
    machine.lists["imex"] = [NEW, OLD]
    asked: dict[str, Any] = {
        "packages": {"smi": "595.71.05"},
        "patterns": ["smi", "imex"],
        "release": ["smi", "imex"],
    }
    present(machine, **asked, replaced=["imex"])
    assert machine.packages["imex"].version == OLD


def test_what_has_files_of_the_others_goes_in_the_step_in_which_they_come(machine: Machine) -> None:
    machine.packages["imex-580"] = base.Installed(OLD, True)
    asked: dict[str, Any] = {
        "packages": {"smi": "595.71.05"},
        "release": ["imex-580"],
        "displaced": ["imex-580", "x"],
    }
    assert present(machine, check=True, **asked).changed
    assert "imex-580" in machine.packages
    present(machine, **asked)
    assert "install imex-580-" in machine.asked
    assert machine.asked.index("release imex-580") < machine.asked.index("install imex-580-")
    assert not present(machine, **asked).changed


def test_a_missing_version_names_what_is_there(machine: Machine) -> None:
    with pytest.raises(base.PackageError, match=f"'smi' in version '1.0', only '{NEW}', '{OLD}'"):
        present(machine, packages={"smi": "1.0"})
    assert "install" not in machine.asked
    assert not (machine.folder / "drv.pref").exists()


def test_packages_without_a_version_are_held_by_choice_and_never_upgraded(machine: Machine) -> None:
    machine.packages["modprobe"] = base.Installed("530.1-1", False)
    assert not present(machine, repository=None, unversioned=["modprobe"]).changed
    assert present(machine, repository=None, unversioned=["modprobe"], hold_unversioned=True).changed
    assert machine.packages["modprobe"] == base.Installed("530.1-1", True)
    # Somebody's own hold stays.
    assert not present(machine, repository=None, unversioned=["modprobe"]).changed


def test_a_pattern_does_not_hold_what_is_held_by_choice(machine: Machine) -> None:
    machine.packages["modprobe"] = base.Installed(OLD, False)
    present(machine, packages={"smi": "580.178.04"}, patterns=["*"], unversioned=["modprobe"])
    assert not machine.packages["modprobe"].held
    assert machine.packages["lib"].held


def test_packages_without_a_version_come_as_they_are_offered(machine: Machine) -> None:
    machine.after_refresh = {"headers": ["6.1-1"]}
    work = present(
        machine, repository=None, unversioned=["cuda-toolkit-12-8"], optional=["headers", "nowhere"]
    )
    assert machine.changes == ["refresh all", "repair", "install"]
    assert {name: each["after"] for name, each in work.packages.items()} == {
        "cuda-toolkit-12-8": "12.8.1-1", "headers": "6.1-1", "nowhere": None,
    }  # fmt: skip


def test_optional_packages_that_nobody_offers_change_nothing(machine: Machine) -> None:
    assert not present(machine, repository=None, optional=["nowhere"]).changed
    assert machine.changes == ["refresh all"]
    with pytest.raises(base.PackageError, match="No repository offers 'nowhere'"):
        present(machine, repository=None, unversioned=["nowhere"])


def test_check_mode_changes_nothing_and_tells_what_would_come(machine: Machine) -> None:
    (machine.folder / "drv.sources").write_text(KEY.strip())
    machine.would_remove = {"runc": "1.1"}
    work = present(machine, check=True, **DRIVER, removable=["runc"])
    assert work.changed
    assert machine.changes == []
    assert work.packages == {"smi": {"before": None, "after": OLD}}
    assert work.plan == {"installed": {"smi": OLD}, "changed": {}, "removed": {"runc": "1.1"}}
    assert not (machine.folder / "drv.pref").exists()
    machine.unpredictable = "broken"
    assert "broken" in present(machine, check=True, **DRIVER).warnings[0]


def test_check_mode_without_the_repository_says_what_was_asked_for(machine: Machine) -> None:
    work = present(machine, check=True, **DRIVER)
    assert work.packages == {"smi": {"before": None, "after": "580.178.04"}}
    assert work.plan is None
    assert sorted(machine.folder.iterdir()) == []


def test_check_mode_names_the_file_of_pins_of_half_a_set_and_shows_none(machine: Machine) -> None:
    (machine.folder / "drv.sources").write_text(KEY.strip())
    half = {"smi": "580.178.04", "not-listed-yet": "580.178.04"}
    work = present(machine, check=True, packages=half)
    (row,) = work.diff
    assert row["after_header"] == str(machine.folder / "drv.pref")
    assert "580" not in row["after"]
    # What is there is changed, in a way that nobody knows yet.
    (machine.folder / "drv.pref").write_text("of before")
    assert present(machine, check=True, packages=half).diff == []
    assert work.packages["not-listed-yet"] == {"before": None, "after": "580.178.04"}


def test_absent_takes_the_set_and_our_files_and_nothing_else(machine: Machine) -> None:
    present(machine, **DRIVER, unversioned=["modprobe"])
    machine.packages["container"] = base.Installed("1.20.1-1", False)
    work = absent(machine, **DRIVER, unversioned=["modprobe"])
    assert machine.changes == ["remove lib modprobe smi"]
    assert list(machine.packages) == ["container"]
    assert work.packages["smi"] == {"before": OLD, "after": None}
    assert sorted(machine.folder.iterdir()) == []
    assert not absent(machine, **DRIVER, unversioned=["modprobe"]).changed


def test_absent_goes_by_what_is_installed_not_by_the_inventory(machine: Machine) -> None:
    present(machine, **DRIVER)
    absent(machine, packages={"smi": "595.71.05"}, patterns=DRIVER["patterns"])
    assert machine.packages == {}


@pytest.mark.parametrize("check", [True, False])
def test_absent_refuses_by_name_what_others_have_before_anything_goes(machine: Machine, check: bool) -> None:
    present(machine, **DRIVER)
    files = {path: path.read_text() for path in machine.folder.iterdir()}
    machine.dependents = {"site-tool": "1.0-1", "lib": OLD}
    told = "Removing 'lib', 'smi' would also remove 'site-tool' \\(1.0-1\\). Nothing was removed."
    with pytest.raises(base.PackageError, match=told):
        absent(machine, check, **DRIVER)
    assert machine.changes == []
    assert {path: path.read_text() for path in machine.folder.iterdir()} == files


@pytest.mark.parametrize("check", [True, False])
def test_absent_tells_what_goes_with_what_needed_it(machine: Machine, check: bool) -> None:
    present(machine, **DRIVER)
    machine.packages["came-along"] = base.Installed("1-1", False)
    work = absent(machine, check, **DRIVER, autoremove=True)
    assert {name: each["before"] for name, each in work.packages.items()} == {
        "smi": OLD, "lib": OLD, "came-along": "1-1",
    }  # fmt: skip
    assert bool(machine.packages) is check


# --- what is not of the set ------------------------------------------------------------------------------------------


def there(machine: Machine, serves: bool = False, **params: Any) -> Any:
    """A folder with all of the set is saved; what is installed from it."""
    machine.packages["smi"] = base.Installed(OLD, False)
    machine.packages["lib"] = base.Installed(OLD, False)
    fetched(machine, **DRIVER)
    machine.packages.pop("smi")
    machine.packages.pop("lib")
    return lambda check=False, **more: from_folder(machine, check, serves, **{**params, **more})


def files(machine: Machine) -> dict[str, str]:
    return {path.name: path.read_text() for path in machine.folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("pinned", [False, True])
def test_what_would_go_with_a_set_is_refused_by_name_before_anything_is_changed(
    machine: Machine, saved: bool, check: bool, pinned: bool
) -> None:
    put = there(machine) if saved else None
    if pinned:
        (machine.folder / "drv.pref").write_text("of before\n")
    if check and not saved:
        (machine.folder / "drv.sources").write_text(KEY.strip())
    before = files(machine), dict(machine.packages)
    machine.would_remove = {"docker.io": "20.10", "runc": "1.1"}

    def act(**more: Any) -> Any:
        asked = {**DRIVER, "release": ["smi", "lib"], **more}
        return put(check=check, **asked) if put else present(machine, check=check, **asked)

    told = "Installing 'drv' would remove 'docker.io' \\(20.10\\), 'runc' \\(1.1\\). Nothing was changed."
    with pytest.raises(base.PackageError, match=f"{told}.*'preflight_removable_packages'"):
        act()
    assert (files(machine), machine.packages) == before
    # Holds were let go for the simulation alone, lists and an interrupted run are another matter.
    assert set(machine.changes) <= {"refresh drv", "repair"}
    with pytest.raises(base.PackageError, match=r"remove 'runc' \(1\.1\)\. Nothing"):
        act(removable=["docker*"])
    done = act(removable=["docker*", "runc"])
    assert done.changed
    assert (machine.packages.get("smi") is not None) is not check


def test_a_new_repository_does_not_stay_without_the_pins_that_it_needs(machine: Machine) -> None:
    machine.would_remove = {"docker.io": "20.10"}
    with pytest.raises(base.PackageError, match=r"docker\.io"):
        present(machine, **DRIVER)
    assert files(machine) == {}
    # One that was there stays, with its own key.
    (machine.folder / "drv.sources").write_text("of before")
    with pytest.raises(base.PackageError, match=r"docker\.io"):
        present(machine, **DRIVER)
    assert files(machine) == {"drv.sources": "of before"}


PARTS: dict[str, Any] = {
    "packages": {"smi": "580.178.04"},
    "patterns": ["lib*", "src:drv-*"],
    "unversioned": ["modprobe"],
    "optional": ["cuda-toolkit-12-8"],
    "companions": ["linux-*"],
    "counterparts": [{"of": "pin-580", "names": ["pin-595"], "version": ""}],
    "release": ["kernel-*"],
    "replaced": ["other-kind"],
    "displaced": ["fabric-580"],
}


@pytest.mark.parametrize(
    ("name", "version", "source"),
    [
        ("smi", "1", ""),
        ("lib7", "570.1-1", ""),
        ("codec", "1.0", "drv-source"),
        ("modprobe", "1", ""),
        ("cuda-toolkit-12-8", "1", ""),
        ("linux-image", "6.1", ""),
        ("pin-580", "580-1", ""),
        ("pin-595", "595-1", ""),
        ("kernel-core", "1", ""),
        ("other-kind", "1", ""),
        ("fabric-580", "1", ""),
    ],
)
def test_parts_of_the_set_may_go_whatever_makes_them_its_own(
    machine: Machine, name: str, version: str, source: str
) -> None:
    machine.packages["pin-595"] = base.Installed("595-1", False)
    machine.packages[name] = base.Installed(version, True, source)
    machine.would_remove = {name: version}
    assert present(machine, **PARTS).changed
    assert machine.erased == [True]


def test_a_name_like_a_drivers_part_with_another_kind_of_version_is_not_of_the_set(machine: Machine) -> None:
    machine.would_remove = {"libother": "2.13.0-1"}
    with pytest.raises(base.PackageError, match="remove 'libother'"):
        present(machine, **PARTS)
    # Of other sets, whose versions have no kind, all that has such a name.
    kit: dict[str, Any] = {"packages": {"container": "1.20.1"}, "patterns": ["lib*"]}
    assert present(machine, **kit).changed


def test_what_somebody_holds_stays_and_what_nobody_holds_comes_along(machine: Machine) -> None:
    machine.packages["libc6"] = base.Installed("2.36-1", False)
    machine.would_change = {"libc6": ("2.36-1", "2.36-9")}
    assert present(machine, **DRIVER).changed
    del machine.packages["smi"]
    machine.packages["libc6"] = base.Installed("2.36-1", True)
    told = "would change 'libc6' \\(2.36-1 to 2.36-9\\). Nothing was changed."
    with pytest.raises(base.PackageError, match=told):
        present(machine, **DRIVER, removable=["*"])


def test_on_a_node_that_serves_nothing_of_others_changes_but_what_a_folder_has(machine: Machine) -> None:
    machine.packages["libc6"] = base.Installed("2.36-1", False)
    machine.would_change = {"libc6": ("2.36-1", "2.36-9"), "cuda-config": ("12.8", "12.9")}
    with pytest.raises(base.PackageError, match=r"change 'libc6' \(2.36-1 to 2.36-9\)\. Nothing"):
        present(machine, serves=True, **DRIVER)
    put = there(machine, serves=True)
    with pytest.raises(base.PackageError, match="change 'libc6'"):
        put(**DRIVER)
    # One that the folder was made with is what the way forth and back consists of.
    folder = machine.folder / "saved"
    saved = manifests.read(folder, "apt")
    (folder / "libc6.deb").write_text("libc6")
    more = base.Saved("libc6", "2.36-9", "libc6.deb", manifests.digest(folder / "libc6.deb"))
    manifests.write(folder, "apt", [*saved, more])
    assert put(**DRIVER).changed


@pytest.mark.parametrize("serves", [False, True])
def test_a_kernel_that_would_come_alone_is_refused(machine: Machine, serves: bool) -> None:
    machine.would_change = {"kernel-core": ("5.14.0-570.el9", "5.14.0-611.el9")}
    with pytest.raises(
        base.PackageError, match=r"bring kernel 5\.14\.0-611\.el9 alone.*kernel-devel-matched"
    ):
        present(machine, serves=serves, repository=None, optional=["cuda-toolkit-12-8"])


def test_a_set_is_not_saved_that_could_not_be_installed_without_loss(machine: Machine) -> None:
    machine.would_remove = {"docker.io": "20.10"}
    with pytest.raises(base.PackageError, match=r"remove 'docker\.io'"):
        fetched(machine, **DRIVER)
    assert not (machine.folder / "saved").exists()
    assert fetched(machine, **DRIVER, removable=["docker.io"]).changed


def test_a_simulation_that_fails_is_an_error_and_nothing_is_changed(machine: Machine) -> None:
    machine.unpredictable = "Unmet: smi : Depends: dkms."
    with pytest.raises(base.PackageError, match=r"Depends: dkms\. What installing 'drv'.*run again"):
        present(machine, **DRIVER)
    assert files(machine) == {}
    assert "install" not in machine.asked


def test_a_simulation_sees_what_the_installation_will(machine: Machine) -> None:
    machine.packages = {name: base.Installed(OLD, True) for name in ("smi", "lib", "fabric-580")}
    asked: dict[str, Any] = {"packages": {"smi": "595.71.05"}, "patterns": ["lib"], "release": ["l*", "smi"]}
    present(machine, **asked, displaced=["fabric-580", "none"])
    (seen,) = machine.simulated
    assert seen == (["l*", "smi", "smi", "lib"], ["fabric-580"], True)
    assert machine.pinned == [True]
    assert machine.erased == [True]
    assert machine.changes.index("repair") < machine.changes.index("release lib smi")
    # Where nothing goes, nothing may.
    del machine.packages["smi"]
    present(machine, **asked)
    assert machine.erased == [True, False]


class Ended(Exception):  # noqa: N818 - none of an error
    """The module has answered."""


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("said", ["", '["runc"]', '["docker.io"]'])
def test_the_module_knows_what_the_inventory_permits_and_whether_the_node_serves(
    machine: Machine, said: str, joined: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Module:
        check_mode = False

        def __init__(self, argument_spec: dict[str, Any], **_options: Any) -> None:
            self.params = {name: row.get("default") for name, row in argument_spec.items()}
            self.params.update(DRIVER, name="drv", repository=REPOSITORY)

        def fail_json(self, msg: str, **_answer: Any) -> None:
            raise Ended(msg)

        exit_json = fail_json

        def warn(self, _text: str) -> None:
            """Nothing."""

    (machine.folder / "kubelet.conf").touch()
    machine.packages["libc6"] = base.Installed("1", False)
    machine.would_change = {"libc6": ("1", "2")} if joined else {}
    machine.would_remove = {"runc": "1.1", "docker.io": "20.10"}
    monkeypatch.setattr(others, "KUBECONFIG", str(machine.folder / ("kubelet.conf" if joined else "none")))
    monkeypatch.setattr(packages, "AnsibleModule", Module)
    monkeypatch.setattr(door, "backend", lambda: machine)
    monkeypatch.setenv(door.REMOVABLE_ENVIRONMENT, said)
    with pytest.raises(Ended) as ended:
        packages.main()
    told = str(ended.value)
    assert ("'runc'" in told, "'docker.io'" in told) == ("runc" not in said, "docker.io" not in said)
    assert ("'libc6' (1 to 2)" in told) is joined


def test_whether_a_node_serves_is_known_by_what_the_probe_looks_for() -> None:
    assert others.KUBECONFIG == probe.KUBECONFIG


def test_check_mode_reads_no_lists(machine: Machine) -> None:
    (machine.folder / "drv.sources").write_text(KEY.strip())
    present(machine, check=True, **DRIVER)
    assert [reads for _released, _displaced, reads in machine.simulated] == [False]


# --- what is saved for a way back ----------------------------------------------------------------------------------


def saved_before_a_part_came(machine: Machine) -> tuple[dict[str, Any], dict[str, str]]:
    """A folder from an earlier upgrade, on a node where a part with a version of its own came afterwards.

    Returns:
        What is asked for now, and the versions in the folder.
    """
    present(machine, **DRIVER)
    before = fetched(machine, **DRIVER).saved
    assert before == {"smi": OLD, "lib": OLD}
    assert not fetched(machine, **DRIVER).changed
    machine.packages["modprobe"] = base.Installed("535.1-1", True)
    # Repositories do not keep old versions.
    machine.lists.update(smi=[NEW], lib=[NEW])
    return {**DRIVER, "companions": ["modprobe"]}, before


def test_a_part_that_came_since_a_set_was_saved_comes_to_it(machine: Machine) -> None:
    asked, before = saved_before_a_part_came(machine)
    predicted = fetched(machine, check=True, **asked)
    assert (predicted.changed, machine.changes) == (True, [])
    more = fetched(machine, **asked)
    assert machine.changes == ["fetch modprobe"]
    assert (more.changed, more.saved) == (True, {**before, "modprobe": "535.1-1"})
    folder = machine.folder / "saved"
    assert {each.name: each.version for each in manifests.read(folder, "apt")} == more.saved
    again = fetched(machine, **asked)
    assert (again.changed, again.saved, machine.changes) == (False, more.saved, [])
    machine.packages["modprobe"] = base.Installed("535.2-1", True)
    machine.lists["modprobe"] = ["535.2-1"]
    assert fetched(machine, **asked).saved == {**before, "modprobe": "535.2-1"}
    assert sorted(path.name for path in folder.iterdir()) == [
        f"lib_{OLD}.deb", "manifest.json", "modprobe_535.2-1.deb", f"smi_{OLD}.deb",
    ]  # fmt: skip


def test_a_part_that_can_be_had_nowhere_is_named_and_what_was_saved_stays(machine: Machine) -> None:
    asked, before = saved_before_a_part_came(machine)
    machine.lists["modprobe"] = []
    with pytest.raises(base.PackageError, match="Nobody has 'modprobe'"):
        fetched(machine, **asked)
    saved = manifests.read(machine.folder / "saved", "apt")
    assert {each.name: each.version for each in saved} == before


def test_a_saved_set_that_is_not_installed_is_taken_as_it_was_saved(machine: Machine) -> None:
    asked, before = saved_before_a_part_came(machine)
    present(machine, packages={"smi": "595.71.05"}, patterns=DRIVER["patterns"], release=["smi", "lib"])
    other = fetched(machine, **asked)
    assert (other.changed, other.saved) == (False, before)
