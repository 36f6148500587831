"""What systemd runs as containerd and kubelet, and whose programs these are."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusmith.probe import programs
from gpusmith.probe.commands import Command
from gpusmith.probe.programs import Program

SHOWN = """\
MainPID=812
ExecStart={ path=/usr/local/bin/kubelet ; argv[]=/usr/local/bin/kubelet $KUBE_LOG_LEVEL ; ignore_errors=no ; pid=812 }
Id=kubelet.service
LoadState=loaded
ActiveState=active
FragmentPath=/etc/systemd/system/kubelet.service

MainPID=0
ExecStart={ path=/usr/bin/containerd ; argv[]=/usr/bin/containerd ; ignore_errors=no ; pid=0 ; code=(null) ; status=0/0 }
Id=containerd.service
LoadState=loaded
ActiveState=inactive
FragmentPath=/usr/lib/systemd/system/containerd.service

MainPID=0
Id=k3s.service
LoadState=not-found
ActiveState=inactive
FragmentPath=

MainPID=0
Id=rke2-agent.service
LoadState=masked
ActiveState=inactive
FragmentPath=
"""
KUBELET = Program(
    "active", "/etc/systemd/system/kubelet.service", "/usr/local/bin/kubelet", "/usr/local/bin/kubelet"
)


def test_units_that_are_loaded_have_programs() -> None:
    found = programs.parse_units(SHOWN)
    assert found["kubelet"] == (KUBELET, "812")
    assert found["containerd"][0].active == "inactive"
    assert set(found) == {"kubelet", "containerd"}


@pytest.mark.parametrize(
    ("name", "runs", "path"),
    [
        # The unit's ExecStart is a link, or a script that starts the program.
        ("kubelet", "/opt/bin/kubelet", "/opt/bin/kubelet"),
        ("kubelet", "/usr/local/bin/kubelet (deleted)", "/usr/local/bin/kubelet"),
        ("kubelet", "/usr/bin/dash", "/usr/local/bin/kubelet"),
        ("k3s-agent", "/var/lib/rancher/k3s/data/a/bin/k3s", "/var/lib/rancher/k3s/data/a/bin/k3s"),
        ("kubelet", "", "/usr/local/bin/kubelet"),
    ],
)
def test_what_runs_goes_before_what_the_unit_names(name: str, runs: str, path: str, tmp_path: Path) -> None:
    (tmp_path / "812").mkdir()
    if runs:
        (tmp_path / "812" / "exe").symlink_to(runs)
    assert programs.running(name, KUBELET, "812", str(tmp_path)).path == path


def test_a_package_may_name_a_file_by_either_folder(tmp_path: Path) -> None:
    assert programs.names_of("/usr/bin/no-such-kubelet") == [
        "/usr/bin/no-such-kubelet",
        "/bin/no-such-kubelet",
    ]
    assert programs.names_of("/usr/local/bin/no-such-kubelet") == ["/usr/local/bin/no-such-kubelet"]
    (tmp_path / "containerd-stable").touch()
    (tmp_path / "containerd").symlink_to("containerd-stable")
    assert str(tmp_path / "containerd-stable") in programs.names_of(str(tmp_path / "containerd"))


@pytest.mark.parametrize(
    ("database", "text", "owner"),
    [
        ("dpkg", "containerd.io: /usr/bin/containerd\n", "containerd.io"),
        ("dpkg", "libc6:amd64: /lib/x86_64-linux-gnu/libc.so.6\n", "libc6"),
        ("dpkg", "kubelet, other-kubelet: /usr/bin/kubelet\n", "kubelet"),
        ("dpkg", "diversion by site from: /usr/bin/kubelet\nkubelet: /usr/bin/kubelet\n", "kubelet"),
        ("dpkg", "", ""),
        ("rpm", "containerd.io\ncontainerd.io\n", "containerd.io"),
        ("rpm", "file /usr/local/bin/kubelet is not owned by any package\n", ""),
    ],
)
def test_answers_of_package_managers(database: str, text: str, owner: str) -> None:
    assert programs.parse_owner(text, database) == owner


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("Kubernetes v1.31.4\n", "1.31.4"),
        ("containerd github.com/containerd/containerd/v2 v2.1.4 75cb2b7193e4\n", "2.1.4"),
        ("containerd containerd.io 1.7.28 b98a3aace656320842a23f4a392a33f46af97866\n", "1.7.28"),
        ("k3s version v1.33.1+k3s1 (99d91538)\n", "1.33.1+k3s1"),
        ("", None),
    ],
)
def test_versions_that_programs_print(text: str, version: str | None) -> None:
    assert programs.parse_version(text) == version


def test_only_a_program_in_the_place_of_none_is_asked_for_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []

    class Answers(Command):
        def __init__(self, *words: str) -> None:
            asked.append(words)

        def output(self, *_more: object, **_named: object) -> str:
            return "Kubernetes v1.31.4\n"

    def owned_by(text: str) -> Command:
        made = Answers()
        monkeypatch.setattr(made, "output", lambda *_, **__: text)
        return made

    monkeypatch.setattr(programs, "Command", Answers)
    usual = Program(
        "active", "/usr/lib/systemd/system/containerd.service", "/usr/bin/containerd", "/usr/bin/containerd"
    )
    found = programs.gather(
        {
            "kubelet": (KUBELET, owned_by("")),
            "containerd": (usual, owned_by("containerd.io: /usr/bin/containerd\n")),
        },
        "dpkg",
        [],
    )
    assert (found["kubelet"].owner, found["kubelet"].version) == ("", "1.31.4")
    assert (found["containerd"].owner, found["containerd"].version) == ("containerd.io", None)
    assert [words for words in asked if words] == [("/usr/local/bin/kubelet", "--version")]


def test_without_a_package_database_nobody_knows_the_owner() -> None:
    found = programs.gather({"kubelet": (KUBELET, None)}, "", [])
    assert found["kubelet"].owner is None
