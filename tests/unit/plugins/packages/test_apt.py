"""The backend for apt without apt: files, what apt's programs print, and which programs are run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import (
    apt,
    apt_files,
    apt_output,
    base,
)

from tests.unit.keys import KEY

REPOSITORY = base.Repository(["http://depot/apt/containerd/"], ["./"], [], KEY.strip())


def test_source_carries_key_and_escapes_its_empty_line() -> None:
    text = apt_files.render_source(REPOSITORY, "containerd")
    assert (
        "URIs: http://depot/apt/containerd/\nSuites: ./\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n "
        in text
    )
    assert "Components" not in text


def test_madison_lists_each_version_once_newest_first_and_no_sources() -> None:
    lines = ["1.36.3-1.1 | http://d", "1.36.2-1.1 | http://d", "1.36.2-1.1 | http://e"]
    text = "".join(f"kubelet | {line} ./ Packages\n" for line in lines)
    text += "   kubelet | 1.37.0-1.1 | http://d ./ Sources\n"
    assert apt_output.parse_madison(text) == {"kubelet": ["1.36.3-1.1", "1.36.2-1.1"]}


def test_half_installed_package_is_not_installed() -> None:
    text = "a\t1-1\tii \tsrc\tall\nb\t2-1\thi \tb\tamd64\nc\t3-1\tiF \tc\tamd64\nd\t\tun \td\t\n"
    assert apt_output.parse_installed(text) == {
        "a": base.Installed("1-1", False, "src"),
        "b": base.Installed("2-1", True, "b"),
    }


def test_a_package_of_a_foreign_architecture_says_nothing_of_the_machines_own() -> None:
    text = "lib\t1-1\thi \tsrc\tamd64\nlib\t1-1\tii \tsrc\ti386\ngame\t1-1\tii \tgame\ti386\n"
    backend = apt.Apt(execute=lambda *_words, **_options: text)
    for names in (["lib", "game"], ["*"], ["src:*"]):
        assert backend.installed(names) == {"lib": base.Installed("1-1", True, "src")}
    assert backend.installed(["game:i386"])["game:i386"].version == "1-1"


def test_preferences_pin_each_name_and_pattern_to_each_version() -> None:
    text = apt_files.render_preferences(
        {"kubelet": ["1.36.3-1.1"], "lib*": ["1-1", "1-2"]}, "kubernetes_node"
    )
    assert "Package: kubelet\nPin: version 1.36.3-1.1\nPin-Priority: 1001\n" in text
    assert text.count("Package: lib*\nPin: version 1-") == 2


def test_preferences_of_an_administrator_count_in_any_encoding(tmp_path: Path) -> None:
    (tmp_path / "etc/apt").mkdir(parents=True)
    theirs = "Explanation: f\xfcr uns\nPackage: a\nPin: version 1\nPin-Priority: -1\n".encode("latin-1")
    (tmp_path / "etc/apt/preferences").write_bytes(theirs)
    seen: list[bytes] = []

    def execute(words: Sequence[str], *_rest: Any, **_options: Any) -> str:
        paths = [word.partition("=")[2] for word in words if word.startswith("Dir::Etc::Preferences=")]
        seen.extend(Path(path).read_bytes() for path in paths)
        return ""

    apt.Apt(root=tmp_path, execute=execute).simulate({"a": "2"}, {"a": ["2"]})
    assert seen[0].startswith(theirs)


def test_a_package_that_was_interrupted_leaves_its_sibling_where_it_is() -> None:
    blocks = [
        f"Package: libcuda\nStatus: install ok unpacked\nArchitecture: {arch}\n" for arch in ("amd64", "i386")
    ]
    both = "\n".join(blocks)
    assert apt_files.without_packages(both, ["libcuda:i386"]).strip() == blocks[0].strip()
    assert apt_files.without_packages(both, ["libcuda"]).strip() == blocks[1].strip()


def test_simulation_tells_new_changed_and_removed() -> None:
    text = (
        "NOTE: This is only a simulation!\nInst new:amd64 (1:2.0-1 lab [amd64])\nInst old [1.0-1] (2.0-1 lab [amd64]) []\n"
        "Remv gone [3.0-1] [other:amd64 ]\nConf new (1:2.0-1 lab [amd64])\n"
        "Purg whole:amd64 [4.0-1]\nPurg files-of-it\nPurg files-of-lib:amd64\n"
    )
    gone = {"gone": "3.0-1", "whole": "4.0-1", "files-of-it": "", "files-of-lib": ""}
    assert apt_output.parse_simulation(text) == base.Plan(
        {"new": "1:2.0-1"}, {"old": ("1.0-1", "2.0-1")}, gone
    )


@pytest.mark.parametrize(
    ("text", "owner"),
    [
        ("libnvidia-ml1:amd64: /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1\n", "libnvidia-ml1"),
        ("one:amd64, two:amd64: /etc/file\n", "one"),
        ("diversion by glx from: /usr/lib/x\nreal: /usr/lib/x\n", "real"),
        ("", None),
    ],
)
def test_owner(text: str, owner: str | None) -> None:
    assert apt_output.parse_owner(text) == owner


# Debian's own package, in words that it printed.
NOT_BUILT = """Building initial module for 6.1.0-56-amd64
Error! Bad return status for module build on kernel: 6.1.0-56-amd64 (x86_64)
Consult /var/lib/dkms/nvidia-current-open/535.261.03/build/make.log for more information.
dpkg: error processing package nvidia-open-kernel-dkms (--configure):
 installed nvidia-open-kernel-dkms package post-installation script subprocess returned error exit status 10
Errors were encountered while processing:
 nvidia-open-kernel-dkms
"""


@pytest.mark.parametrize(
    ("stdout", "stderr", "says"),
    [
        ("", "W: hm\nE: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (apt)\n", "held by process 7"),
        ("", "E: The repository 'http://d ./ Release' does not have a Release file.\n", "does not have a Release"),
        ("", "W: GPG error\nE: The repository 'http://d ./ InRelease' is not signed.\n", "is not signed"),
        ("", "E: You don't have enough free space in /var/cache/apt/archives/.\n", "enough free space"),
        ("", "dpkg: error processing archive x.deb (--unpack):\n cannot copy: No space left on device\n", "dpkg: error"),
        (f"x\n{apt_output.UNMET}\n a : Depends: b (= 1)\n     Depends: c\nmore\n", "E: Unable to correct problems\n",
         "problems Unmet: a : Depends: b (= 1); Depends: c"),
        (NOT_BUILT, "E: Sub-process /usr/bin/dpkg returned an error code (1)\n",
         ("error code (1) Error! Bad return status for module build on kernel: 6.1.0-56-amd64 (x86_64)"
         " Consult /var/lib/dkms/nvidia-current-open/535.261.03/build/make.log for more information."
         " dpkg: error processing package nvidia-open-kernel-dkms (--configure): installed")),
        ("only this", "", "only this"),
    ],
)  # fmt: skip
def test_an_error_names_its_cause(stdout: str, stderr: str, says: str) -> None:
    assert says in apt_output.cause(stdout, stderr)


class Programs:
    """Stands in for apt's programs, on a machine where nothing is installed.

    Args:
        fails: for words of a command, how often it fails and with what.
    """

    def __init__(self, fails: dict[str, list[str]] | None = None) -> None:
        self.commands: list[str] = []
        self._fails = fails or {}

    def __call__(self, words: Sequence[str], timeout_s: float, accept: Any = (0,), **_options: Any) -> str:
        command = " ".join(words)
        if words[0] == "dpkg-query":
            return ""
        self.commands.append(command)
        for part, messages in self._fails.items():
            if part in command and messages:
                raise base.PackageError(messages.pop(0))
        return ""


def test_a_failed_install_is_tried_again_with_fresh_lists() -> None:
    programs = Programs({"apt-get install": ["E: Unable to locate package libmnl0"]})
    apt.Apt(execute=programs).install({"a": "1-1", "b": ""})
    assert [command.split()[1] for command in programs.commands] == ["install", "update", "install"]
    assert programs.commands[0].endswith(" a=1-1 b")
    for word in (
        "--allow-downgrades",
        "--allow-change-held-packages",
        "--no-install-recommends",
        "DPkg::Lock::Timeout=300",
    ):
        assert word in programs.commands[0]


def test_a_simulation_reads_lists_as_an_installation_does(tmp_path: Path) -> None:
    def asked(**options: Any) -> list[str]:
        programs = Programs({"--simulate": ["E: Unable to locate package libmnl0"]})
        try:
            apt.Apt(root=tmp_path, execute=programs).simulate({"a": "1-1"}, {}, **options)
        except base.PackageError:
            programs.commands.append("failed")
        verbs = ("install", "update", "failed")
        return [verb for command in programs.commands for verb in verbs if verb in command.split()]

    assert asked() == ["install", "failed"]
    assert asked(reads=True) == ["install", "update", "install"]


def test_nothing_goes_for_what_comes_where_a_simulation_said_so() -> None:
    programs = Programs()
    for erase in (True, False):
        apt.Apt(execute=programs).install({"a": "1-1"}, erase=erase)
        assert ("--no-remove" in programs.commands[-1]) is not erase


def test_a_lock_that_stays_is_not_tried_again() -> None:
    programs = Programs({"apt-get install": ["E: Could not get lock /var/lib/dpkg/lock-frontend."]})
    with pytest.raises(base.PackageError, match="Could not get lock"):
        apt.Apt(lock_timeout_s=7, execute=programs).install({"a": "1-1"})
    assert len(programs.commands) == 1
    assert "DPkg::Lock::Timeout=7" in programs.commands[0]


def test_an_installation_that_took_too_long_is_not_begun_a_second_time() -> None:
    programs = Programs()

    def execute(words: Sequence[str], timeout_s: float, **options: Any) -> str:
        if words[0] == "dpkg-query":
            return ""
        programs(words, timeout_s, **options)
        raise base.UnfinishedError("'apt-get install' did not end within 2100 s")

    with pytest.raises(base.UnfinishedError):
        apt.Apt(execute=execute).install({"a": "1-1"})
    assert len(programs.commands) == 1


def test_packages_that_are_there_are_not_configured_a_second_time() -> None:
    """That would compile the driver's module once more, for minutes and in vain."""
    programs = Programs({"apt-get install": ["E: Sub-process /usr/bin/dpkg returned an error code (1)"]})
    with pytest.raises(base.PackageError, match="dpkg returned an error"):
        apt.Apt(execute=programs).install({"a": "1-1"})
    assert len(programs.commands) == 1


def test_one_repository_is_read_and_the_lists_of_others_stay() -> None:
    programs = Programs()
    apt.Apt(execute=programs).refresh("containerd")
    (command,) = programs.commands
    assert "Dir::Etc::SourceList=/etc/apt/sources.list.d/gpusmith-containerd.sources" in command
    assert "Dir::Etc::SourceParts=-" in command
    assert "APT::Get::List-Cleanup=0" in command
    assert "APT::Update::Error-Mode=any" in command


def test_nothing_is_run_for_no_packages() -> None:
    programs = Programs()
    backend = apt.Apt(execute=programs)
    assert backend.installed([]) == {}
    assert backend.offered([]) == {}
    backend.hold({})
    backend.release([])
    assert programs.commands == []
