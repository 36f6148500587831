"""The backend for dnf without dnf: files, what dnf's programs print, and which programs are run."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import (
    base,
    dnf,
    dnf_archives,
    dnf_locks,
    dnf_machine,
    manifests,
    versionlock,
)
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.work import is_on_disk

from tests.unit.keys import KEY

OLD, NEW = "3:580.178.04-1.el9", "3:595.71.05-1.el9"
CUDA = base.Repository(
    ["http://depot/rpm/cuda", "http://depot/rpm/more"], [], [], KEY.strip(), "rpm", "packages"
)


@pytest.mark.parametrize(
    ("signed", "packages", "metadata"), [("packages", 1, 0), ("metadata", 0, 1), ("both", 1, 1)]
)
def test_a_repository_checks_what_is_signed(signed: str, packages: int, metadata: int) -> None:
    text = dnf.render_repository(CUDA._replace(signed=signed), "nvidia-driver", Path("/key.asc"))
    assert text.count(f"gpgcheck={packages}\nrepo_gpgcheck={metadata}\ngpgkey=file:///key.asc\n") == 2
    assert text.count("module_hotfixes=1") == 2
    assert "[gpusmith-nvidia-driver]\n" in text
    assert "[gpusmith-nvidia-driver.2]\n" in text


def test_a_repository_that_goes_takes_its_key_along(tmp_path: Path) -> None:
    backend = dnf.Dnf(root=tmp_path)
    there = backend.repository_files("nvidia-driver", CUDA)
    assert {file.path for file in there} == {
        file.path for file in backend.repository_files("nvidia-driver", None)
    }
    assert all(file.text is None for file in backend.repository_files("nvidia-driver", None))


def test_a_repository_for_apt_is_refused(tmp_path: Path) -> None:
    with pytest.raises(base.PackageError, match="'type: rpm'"):
        dnf.Dnf(root=tmp_path).repository_files("nvidia-driver", CUDA._replace(type="deb"))


class Programs:
    """Stands in for dnf and rpm.

    Args:
        says: for words of a command, what it prints, or why it fails.

    Attributes:
        does: for words of a command, what it does.
    """

    def __init__(self, says: dict[str, str | list[base.PackageError]] | None = None) -> None:
        self.commands: list[str] = []
        self.locks: list[str] = []
        self.says = says or {}
        self.does: dict[str, Callable[[str], str]] = {}

    def __call__(self, words: Sequence[str], _timeout_s: float, **_options: Any) -> str:
        self.commands.append(" ".join(words))
        for part, does in self.does.items():
            if part in self.commands[-1]:
                return does(self.commands[-1])
        for word in words:
            if word.startswith("--setopt=pluginconfpath="):
                self.locks.append((Path(word.partition("=")[2].partition("=")[2]) / "locks").read_text())
        for part, said in self.says.items():
            if part in self.commands[-1]:
                if isinstance(said, str):
                    return said
                if said:
                    raise said.pop(0)
        return ""


def row(name: str, version: str) -> str:
    return f"{name}\t{version}\tnoarch\t{name}-1-1.src.rpm\t1\n"


def destination(command: str) -> Path:
    """Where dnf is to put what it downloads."""
    return Path(command.partition("--destdir=")[2].split()[0])


def system(root: Path, installed: str = "", offered: str = "", says: Any = None) -> tuple[Any, Programs]:
    """A backend whose programs tell what is installed and offered."""
    for folder in ("etc/yum.repos.d", "etc/dnf/plugins", "usr/lib/python3/dist-packages/dnf-plugins"):
        (root / folder).mkdir(parents=True)
    (root / "etc/yum.repos.d/a.repo").touch()
    (root / "usr/lib/python3/dist-packages/dnf-plugins/versionlock.py").touch()
    programs = Programs({"rpm -qa": installed, "repoquery": offered, **(says or {})})
    return dnf.Dnf(root=root, execute=programs), programs


def test_pins_by_pattern_are_names_that_have_the_version(tmp_path: Path) -> None:
    """One line each: a lock by pattern makes everything else of such a name uninstallable."""
    offered = (
        row("nvidia-modprobe", OLD)
        + row("nvidia-modprobe", NEW)
        + row("nvidia-container-toolkit", "1.20.1-1")
    )
    # A part of the set without the others' epoch, as NVIDIA's fabric manager.
    offered += row("nvidia-fabric-manager", "580.178.04-1")
    backend, _programs = system(tmp_path, row("nvidia-driver-libs", OLD), offered)
    (file,) = backend.pin_files("nvidia-driver", {"nvidia-driver-cuda": [OLD], "*nvidia*": [OLD]})
    assert file.text is not None
    assert versionlock.read(file.text).ours["nvidia-driver"] == {
        "nvidia-driver-cuda": [OLD],
        "nvidia-driver-libs": [OLD],
        "nvidia-fabric-manager": ["580.178.04-1"],
        "nvidia-modprobe": [OLD],
    }


def test_pins_are_the_same_when_no_repository_answers(tmp_path: Path) -> None:
    pins = {"nvidia-driver-cuda": [OLD], "*nvidia*": [OLD]}
    backend, programs = system(tmp_path, row("nvidia-driver-libs", OLD), row("nvidia-modprobe", OLD))
    (file,) = backend.pin_files("nvidia-driver", pins)
    file.path.write_text(file.text)
    programs.says["repoquery"] = ""
    assert backend.pin_files("nvidia-driver", pins) == [file]
    (newer,) = backend.pin_files("nvidia-driver", {"nvidia-driver-cuda": [NEW], "*nvidia*": [NEW]})
    assert versionlock.read(newer.text).ours["nvidia-driver"] == {"nvidia-driver-cuda": [NEW]}


def test_without_pins_no_list_is_made_and_with_some_one_is(tmp_path: Path) -> None:
    backend, _programs = system(tmp_path)
    assert backend.pin_files("nvidia-driver", {}) == []
    backend.release(["a"])
    assert not (tmp_path / versionlock.PATH).exists()
    backend.hold({"a": "1-1"})
    assert (tmp_path / versionlock.PATH).read_text().splitlines()[1:] == ["a-0:1-1.?*"]


def test_a_removal_needs_no_list_of_locks(tmp_path: Path) -> None:
    """Dnf's plugin ends every command with an error where its list is missing."""
    table = (
        "Dependencies resolved.\nRemoving:\n a noarch 1-1 @r 0\n\nTransaction Summary\nRemove  1 Package\n"
    )
    backend, programs = system(tmp_path, row("a", "1-1"), says={"--assumeno": table})
    backend.remove(["a"])
    assert "--disableplugin=versionlock --disablerepo=* remove" in programs.commands[-1]
    # What is not there cannot be switched off.
    (tmp_path / "usr/lib/python3/dist-packages/dnf-plugins/versionlock.py").unlink()
    backend.remove(["a"])
    assert "versionlock" not in programs.commands[-1]


def test_a_simulation_reads_lists_as_an_installation_does(tmp_path: Path) -> None:
    backend, programs = system(tmp_path, row("a", "1-1"))

    def asked(**options: Any) -> list[str]:
        programs.commands.clear()
        backend.simulate({"a": "1-1"}, {}, **options)
        return [each for each in programs.commands if each.startswith("dnf")]

    assert ["makecache" in each for each in asked()] == [False]
    missing, simulated = asked(reads=True)
    assert missing.endswith("makecache --setopt=*.skip_if_unavailable=1 --setopt=*.metadata_expire=never")
    assert "-C " in simulated
    programs.says["--assumeno"] = [base.PackageError("no match")]
    assert ["--refresh" in each for each in asked(reads=True)] == [False, False, True, False]
    programs.says["--assumeno"] = [base.BusyError("already locked by 7")]
    with pytest.raises(base.BusyError):
        asked(reads=True)
    # Repositories that do not answer are the simulation's to miss.
    programs.says = {"makecache": [base.PackageError("down")], "rpm -qa": row("a", "1-1")}
    assert len(asked(reads=True)) == 2


def test_nothing_goes_for_what_comes_where_a_simulation_said_so(tmp_path: Path) -> None:
    backend, programs = system(tmp_path, row("a", "1-1"))
    for erase in (True, False):
        backend.install({"a": "1-1"}, erase=erase)
        assert ("--allowerasing" in programs.commands[-2]) is erase, programs.commands


def test_a_line_of_others_for_another_version_hinders_holds_and_installs(tmp_path: Path) -> None:
    backend, programs = system(tmp_path, row("a", "2-1"))
    (tmp_path / versionlock.PATH).write_text("a-1*\n")
    for change in (backend.hold, backend.install):
        with pytest.raises(base.PackageError, match=r"'a-1\*'.*which is not ours"):
            change({"a": "2-1"})
    assert not any(" install " in command for command in programs.commands)
    assert (tmp_path / versionlock.PATH).read_text() == "a-1*\n"


def test_an_install_sees_what_it_asks_for_as_locked(tmp_path: Path) -> None:
    backend, programs = system(tmp_path, row("a", "2-1") + row("b", "7-1"))
    backend.hold({"a": "1-1"})
    backend.install({"a": "2-1", "b": ""})
    (command,) = [each for each in programs.commands if " install " in each]
    assert command.endswith(" a-2-1 b")
    assert "--setopt=exit_on_lock=1" in command
    assert "a-0:2-1.?*" in programs.locks[0]
    assert "a-0:1-1.?*" not in programs.locks[0]
    # And the hold goes with it.
    assert backend.installed(["a"])["a"].held


def test_an_install_that_changed_nothing_is_an_error(tmp_path: Path) -> None:
    backend, _programs = system(tmp_path, row("a", "1-1"))
    with pytest.raises(base.PackageError, match="did not install a as asked"):
        backend.install({"a": "2-1"})


def test_a_failed_install_is_tried_again_with_fresh_lists_and_a_busy_one_is_not(tmp_path: Path) -> None:
    backend, programs = system(tmp_path, row("a", "1-1"), says={" install ": [base.PackageError("no match")]})
    backend.install({"a": "1-1"})
    assert ["--refresh" in each for each in programs.commands if " install " in each] == [False, True]
    programs.says[" install "] = [base.BusyError("already locked by 7")]
    with pytest.raises(base.BusyError):
        backend.install({"a": "1-1"})


def test_a_transaction_that_took_too_long_is_not_begun_a_second_time(tmp_path: Path) -> None:
    late = base.UnfinishedError("'dnf -y' did not end within 1800 s")
    backend, programs = system(tmp_path, row("a", "1-1"), says={" install ": [late]})
    with pytest.raises(base.UnfinishedError):
        backend.install({"a": "1-1"})
    assert len([each for each in programs.commands if " install " in each]) == 1
    # Nor are scripts of it taken for ones that nobody can run.
    programs.says = {" reinstall ": [late], "history info": HISTORY, "rpm -qa": row("slow", "2-1")}
    with pytest.raises(base.UnfinishedError):
        backend.repair()


TO_GO = """Dependencies resolved.
================================================================================
 Package          Arch            Version            Repository            Size
================================================================================
Removing:
 fabric           noarch          1-1                @cuda                  1 k

Transaction Summary
================================================================================
Remove  1 Package
"""


@pytest.mark.parametrize("step", ["removal", "installation", "folder"])
def test_what_is_still_there_after_a_removal_that_failed_is_held_as_before(tmp_path: Path, step: str) -> None:
    backend, programs = system(tmp_path, row("fabric", "1-1") + row("a", "1-1"))
    backend.hold({"fabric": "1-1"})
    before = (tmp_path / versionlock.PATH).read_text()
    folder = tmp_path / "folder"
    folder.mkdir()
    manifests.write(folder, "dnf", [])

    def fail(command: str) -> str:
        if "--assumeno" in command:
            return TO_GO
        assert "fabric" not in (tmp_path / versionlock.PATH).read_text()
        raise base.PackageError("a script failed")

    programs.does[" remove "] = fail
    steps = {
        "removal": lambda: backend.remove(["fabric"]),
        "installation": lambda: backend.install({"a": "1-1"}, displaced=["fabric"]),
        "folder": lambda: backend.install_from(folder, ["fabric"]),
    }
    with pytest.raises(base.PackageError, match="a script failed"):
        steps[step]()
    assert (tmp_path / versionlock.PATH).read_text() == before


def test_the_plugin_for_locks_is_brought_where_it_is_missing(tmp_path: Path) -> None:
    backend, programs = system(tmp_path, row("a", "1-1"))
    (tmp_path / "usr/lib/python3/dist-packages/dnf-plugins/versionlock.py").unlink()
    backend.install({"a": "1-1"})
    assert "install dnf-command(versionlock)" in programs.commands[0]


def test_a_package_in_two_versions_is_half_done_unless_it_stands_beside(tmp_path: Path) -> None:
    installed = "".join(row(name, version) for name in ("kernel-core", "drv") for version in ("1-1", "2-1"))
    provides = "kernel-core\tinstallonlypkg(kernel)\ndrv\tdrv\n"
    backend, _programs = system(tmp_path, installed, says={"PROVIDENAME": provides})
    assert backend.installed(["kernel-core", "drv"]) == {
        "kernel-core": base.Installed("2-1", False, "kernel-core")
    }


def test_a_kernels_headers_are_asked_for_by_the_name_of_their_build(tmp_path: Path) -> None:
    older, newer = "5.14.0-503.11.1.el9_5", "5.14.0-570.12.1.el9_6"
    builds = [f"kernel-devel-{version}.noarch" for version in (older, newer)]
    rows = row("kernel-devel", older) + row("kernel-devel", newer)
    provides = "kernel-devel\tinstallonlypkg(kernel)\n"
    backend, programs = system(tmp_path, rows, rows, says={"PROVIDENAME": provides})
    assert backend.offered([builds[0]]) == {builds[0]: [older]}
    assert backend.offered(["kernel-devel"]) == {"kernel-devel": [newer, older]}
    there = backend.installed(builds)
    assert {name: package.version for name, package in there.items()} == dict(
        zip(builds, (older, newer), strict=True)
    )
    # rpm's own patterns are of names.
    assert any(command.endswith(" kernel-devel") for command in programs.commands)


HISTORY = """Transaction ID : 2
Begin time     : Sun Nov 22 17:01:35 2026
Begin rpmdb    : 126d0363920dd988
End time       : Thu Jan  1 00:00:00 1970 (-1795366895 seconds)
End rpmdb      :  **
Return-Code    : Failure: 1
Packages Altered:
 ** Install  slow-2-1.noarch            @s
 ** Upgrade  neighbour-2.0-1.el9.noarch @t
 ** Upgraded neighbour-1.0-1.el9.noarch @@System
"""


def test_what_a_killed_transaction_began_is_installed_once_more(tmp_path: Path) -> None:
    backend, programs = system(tmp_path, row("slow", "2-1"), says={"history info": HISTORY})
    assert backend.repair() is True
    # What it did not come to is for who asks for it.
    assert programs.commands[-1].endswith(" reinstall slow-2-1.noarch")


def test_of_two_versions_the_one_stays_that_came_last(tmp_path: Path) -> None:
    """A killed way back leaves the older version's files, whatever the newer one's entry says."""
    installed = "drv\t2-1\tnoarch\tdrv-2-1.src.rpm\t7\ndrv\t1-1\tnoarch\tdrv-1-1.src.rpm\t8\n"
    says = {
        "PROVIDENAME": "drv\tdrv\n",
        " reinstall ": [base.PackageError("no repository")],
        "history info": HISTORY.partition("Packages Altered")[0],
    }
    backend, programs = system(tmp_path, installed, says=says)
    assert backend.repair() is True
    assert programs.commands[-2:] == ["rpm --erase --nodeps drv-2-1.noarch", programs.commands[-1]]
    assert programs.commands[-1].endswith(" reinstall drv-1-1.noarch")


def test_a_transaction_that_ended_needs_no_repair(tmp_path: Path) -> None:
    ended = HISTORY.replace("End rpmdb      :  **", "End rpmdb      : 5a33f0cf").replace(" ** ", "    ")
    # Two versions side by side are the site's own matter then.
    installed = "acme-rt\t2-1\tx86_64\ta-2-1.src.rpm\t7\nacme-rt\t1-1\tx86_64\ta-1-1.src.rpm\t8\n"
    says = {"history info": ended, "PROVIDENAME": "acme-rt\tacme-rt\n"}
    backend, programs = system(tmp_path, installed, says=says)
    assert backend.repair() is False
    assert not any("reinstall" in command or "--erase" in command for command in programs.commands)


NOT_BEST = (
    "'dnf --setopt' failed: Error: Problem: package bystander-2.0-1.el9.noarch requires drv-libs = 3:595.71.05-1.el9, but none of"
    " the providers can be installed - cannot install the best update candidate for package bystander-1.0-1.el9.noarch"
    " - cannot install the best update candidate for package drv-libs-3:580.178.04-1.el9.noarch"
)


def test_an_upgrade_that_fails_by_our_locks_alone_is_told(tmp_path: Path) -> None:
    backend, programs = system(tmp_path, says={"upgrade --assumeno": [base.PackageError(NOT_BEST)]})
    backend.hold({"drv-libs": OLD})
    assert "since bystander needs newer ones" in backend.blocked()
    assert ["drv-libs" in locks for locks in programs.locks] == [True, False]
    programs.says["upgrade --assumeno"] = [base.PackageError(NOT_BEST), base.PackageError("another cause")]
    assert backend.blocked() == ""
    assert backend.blocked() == ""


def test_only_packages_of_this_machines_architecture_are_saved(tmp_path: Path) -> None:
    """NVIDIA's repository for EL 9 has 32-bit builds of the libraries, under the same names and versions."""
    here = row("nvidia-driver-cuda", OLD).replace("noarch", os.uname().machine)
    backend, programs = system(tmp_path, offered=here + here.replace(os.uname().machine, "i686"))
    with pytest.raises(base.PackageError, match="did not save nvidia-driver-cuda"):
        backend.fetch({"nvidia-driver-cuda": OLD}, tmp_path / "folder")
    (download,) = (command for command in programs.commands if " --downloadonly " in command)
    assert download.endswith(f" nvidia-driver-cuda-{OLD}.{os.uname().machine}")
    cache = tmp_path / "var/cache/dnf/cuda-1/packages"
    cache.mkdir(parents=True)
    for arch in ("i686", os.uname().machine):
        (cache / f"libnvidia-ml-580.178.04-1.el9.{arch}.rpm").touch()
    saved = dnf_archives.Archives(dnf_machine.Machine(tmp_path))
    assert saved.cached("libnvidia-ml", OLD)[0].name.endswith(f".{os.uname().machine}.rpm")


def test_packages_are_saved_by_dnf_itself(tmp_path: Path) -> None:
    """Its command 'download' comes with a package that a site without a network may not have."""
    offered = row("drv-libs", OLD) + row("drv-libs", NEW) + row("drv-tool", OLD)
    backend, programs = system(tmp_path, row("drv-tool", OLD), offered)
    folder = tmp_path / "folder"
    files = {"drv-libs": OLD, "drv-tool": OLD, "drv-needed": NEW}
    for name, version in files.items():
        programs.says[f"/{name}-580"] = row(name, version)

    def save(command: str) -> str:
        for name in ("drv-tool",) if " reinstall " in command else ("drv-libs", "drv-needed"):
            (destination(command) / f"{name}-580.178.04-1.el9.noarch.rpm").touch()
        return ""

    programs.does[" --downloadonly "] = save
    killed = folder / f"{manifests.DOWNLOADS}abc"
    killed.mkdir(parents=True)
    (killed / "drv-libs-580.95.05-1.el9.noarch.rpm").touch()
    found = backend.fetch({"drv-libs": OLD, "drv-tool": OLD}, folder)
    assert {each.name for each in found} == {"drv-libs", "drv-tool"}
    assert not list(folder.glob("*/")), "what a killed run was downloading takes the room of the next one"
    # What they need is the node's, or asked for by its own name.
    assert {path.name.rpartition("-580")[0] for path in folder.glob("*.rpm")} == {"drv-libs", "drv-tool"}
    saving = [command for command in programs.commands if "--downloadonly" in command]
    assert [command.rpartition(" ")[2] for command in saving] == [
        f"drv-tool-{OLD}.noarch",
        f"drv-libs-{OLD}.noarch",
    ]
    assert not any(
        "dnf-command" in command or "enableplugin=download" in command for command in programs.commands
    )


KEYS_OF_RPM = f"gpg-pubkey-d42d0685-62589a51\n{KEY}\ngpg-pubkey-db42a60e-37ea5438\n{KEY}\n"


def signed(root: Path, repositories: str, place: str = "cuda") -> tuple[Any, Programs, list[str]]:
    """A backend that saves one signed package of a repository, and the keys that it is compared with."""
    offered = row("drv-libs", OLD).replace("\t1\n", f"\t{place}\n")
    backend, programs = system(root, offered=offered, says={"rpm -q gpg-pubkey": KEYS_OF_RPM})
    (root / "etc/yum.repos.d/a.repo").write_text(repositories)
    imported = list[str]()

    def save(command: str) -> str:
        (destination(command) / "drv-libs-580.178.04-1.el9.noarch.rpm").touch()
        return ""

    def take(command: str) -> str:
        text = Path(command.split()[-1]).read_text()
        imported.append(text.strip())
        if "SHA-1" in text:
            raise base.PackageError("'rpmkeys --dbpath' failed: error: key 1 import failed.")
        return ""

    programs.does = {
        " --downloadonly ": save,
        " --import ": take,
        " --checksig ": lambda _command: ": digests signatures OK",
    }
    programs.says["/drv-libs-580"] = row("drv-libs", OLD)
    return backend, programs, imported


def key_file(root: Path, name: str) -> str:
    """A key file that has its name in it, and its address."""
    (root / name).write_text(f"key {name}")
    return f"file://{root}/{name}"


def test_keys_of_other_repositories_prove_nothing_and_are_in_nobodys_way(tmp_path: Path) -> None:
    """EL 9 takes no key with a SHA-1 signature, as Elastic's was."""
    text = f"[cuda]\ngpgcheck=1\ngpgkey={key_file(tmp_path, 'cuda')}, {key_file(tmp_path, 'SHA-1')}\n"
    text += f"[elastic]\nenabled=0\ngpgcheck=1\ngpgkey={key_file(tmp_path, 'elastic')}\n"
    backend, programs, imported = signed(tmp_path, text)
    backend.fetch({"drv-libs": OLD}, tmp_path / "folder")
    # What rpm knows counts for dnf, whichever repository it came with.
    assert set(imported) == {"key cuda", "key SHA-1", KEY.strip()}
    assert (tmp_path / "folder" / manifests.MANIFEST).exists()
    programs.does[" --checksig "] = lambda _command: ": digests SIGNATURES NOT OK"
    (tmp_path / "folder" / manifests.MANIFEST).unlink()
    with pytest.raises(
        base.PackageError, match=rf"not signed.* rpm did not take '{tmp_path}/SHA-1'"
    ) as error:
        backend.fetch({"drv-libs": OLD}, tmp_path / "folder")
    assert "/cuda'" not in str(error.value)
    assert not (tmp_path / "folder" / manifests.MANIFEST).exists()


def test_of_a_repository_that_is_not_there_any_more_the_keys_of_all_that_are_on_count(tmp_path: Path) -> None:
    text = f"[main]\ngpgcheck=1\n[on]\ngpgkey={key_file(tmp_path, 'on')}\n"
    text += f"[off]\nenabled = False\ngpgkey={key_file(tmp_path, 'off')}\n"
    backend, _programs, imported = signed(tmp_path, text, place="gone")
    backend.fetch({"drv-libs": OLD}, tmp_path / "folder")
    assert set(imported) == {"key on", KEY.strip()}


@pytest.mark.parametrize("variable", ["$releasever", "${releasever_major}", "$basearch"])
def test_a_key_with_a_variable_in_its_name_is_found(tmp_path: Path, variable: str) -> None:
    """As EPEL's."""
    address = key_file(tmp_path, "RPM-GPG-KEY-EPEL-9").replace("9", variable)
    backend, _programs, imported = signed(tmp_path, f"[cuda]\ngpgcheck=1\ngpgkey={address}\n")
    backend.fetch({"drv-libs": OLD}, tmp_path / "folder")
    assert "key RPM-GPG-KEY-EPEL-9" in imported


def test_comments_that_are_not_utf_8_are_in_nobodys_way_and_stay(tmp_path: Path) -> None:
    backend, _programs, _imported = signed(tmp_path, "")
    latin = "# f\xfcr K\xf6ln\n".encode("latin-1")
    for path in ("etc/dnf/dnf.conf", "etc/yum.repos.d/others.repo"):
        (tmp_path / path).write_bytes(latin + b"[main]\n[cuda]\ngpgcheck=1\n")
    listed = tmp_path / versionlock.PATH
    listed.write_bytes(latin + b"a-1*\n")
    backend.hold({"drv-libs": OLD})
    assert listed.read_bytes().startswith(latin + b"a-1*\n# Written by gpusmith for what is held.\n")
    (file,) = backend.pin_files("nvidia-driver", {"drv-libs": [OLD]})
    assert is_on_disk(base.File(listed, file.text)) is False
    backend.fetch({"drv-libs": OLD}, tmp_path / "folder")
    # What names a line of theirs can be told.
    listed.write_bytes("drv-libs-1\xfc*\n".encode("latin-1"))
    with pytest.raises(base.PackageError, match="which is not ours") as error:
        backend.hold({"drv-libs": OLD})
    assert str(error.value).encode()


def test_plugins_that_repositories_need_stay_on(tmp_path: Path) -> None:
    """As those of clouds, of Red Hat's subscriptions and of artifact registries."""
    here = row("drv-libs", OLD)
    backend, programs = system(tmp_path, "", here, says={"history info": HISTORY})
    backend.refresh()
    backend.offered(["drv-libs"])
    with pytest.raises(base.PackageError):
        backend.fetch({"drv-libs": OLD}, tmp_path / "folder")
    backend.repair()
    backend.removal(["drv-libs"])
    without_locks = len(programs.commands)
    backend.simulate({"drv-libs": OLD}, {})
    backend.hold({"drv-libs": OLD})
    backend.blocked()
    off = {
        (number < without_locks, frozenset(word.partition("=")[2].split(",")))
        for number, command in enumerate(programs.commands)
        for word in command.split()
        if word.startswith("--disableplugin=")
    }
    others = {"local", "etckeeper", "generate_completion_cache"}
    assert off == {(True, frozenset({"versionlock", *others})), (False, frozenset(others))}


def test_nothing_is_held_by_locks_that_dnf_does_not_read(tmp_path: Path) -> None:
    backend, programs = system(tmp_path, row("kubelet", "1.36.3-1"))
    backend.hold({"kubelet": "1.36.3-1"})
    assert not any("dnf-command" in command for command in programs.commands)
    (tmp_path / "usr/lib/python3/dist-packages/dnf-plugins/versionlock.py").unlink()
    backend.hold({"kubelet": "1.36.3-1"})
    assert any(command.endswith(" install dnf-command(versionlock)") for command in programs.commands)


@pytest.mark.parametrize(("path", "option"), dnf_locks.SWITCHES)
def test_locks_that_are_switched_off_are_named(tmp_path: Path, path: str, option: str) -> None:
    backend, _programs = system(tmp_path, row("kubelet", "1.36.3-1"))
    (tmp_path / path).write_text(f"[main]\n{option} = False\n")
    with pytest.raises(base.PackageError, match=f"'/{path}' has '{option}' switched off"):
        backend.hold({"kubelet": "1.36.3-1"})
