"""A driver that came past the package manager, and packages that are neither there nor gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpusmith.expect import foreign
from gpusmith.expect.wanted import Driver
from gpusmith.node.records import parse
from gpusmith.preflight.judge import judge
from gpusmith.probe import foreign as probe
from gpusmith.probe.packages import parse_dpkg, parse_halves, parse_twice
from tests.unit.expect.test_driver import VERSION, bare, ready
from tests.unit.hosts import run
from tests.unit.preflight.test_judge import TABLES, WANTED, facts

WANTED_DRIVER = Driver(node="gpu-1", version=VERSION)


def causes(raw: dict[str, Any]) -> list[str]:
    return [problem.cause for problem in foreign.problems(parse(raw), WANTED_DRIVER)]


def test_a_node_that_site_made_has_nothing_foreign() -> None:
    raw = ready()
    raw["foreign"] = {"sources": {f"/usr/src/nvidia-{VERSION}": VERSION}}
    assert causes(raw) == []
    assert causes(bare()) == []


def test_a_library_without_any_package_of_the_driver_is_told() -> None:
    raw = ready()
    raw["packages"] = {"nvidia-container-toolkit": {"version": "1.20.1-1", "held": True}}
    raw["library"]["files"]["nvidia-ml"]["path"] = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
    (cause,) = causes(raw)
    assert "no package of the driver" in cause


@pytest.mark.parametrize(
    ("folder", "version"),
    [
        ("/usr/src/nvidia-580.178.04", "580.178.04"),
        ("/usr/src/nvidia-current-open-535.261.03", "535.261.03"),
        ("/usr/src/nvidia-srv-580.126.20", "580.126.20"),
        ("/usr/src/nvidia-fs-2.20.5", None),
        ("/usr/src/nvidia-peermem-1.1", None),
    ],
)
def test_sources_of_the_driver_are_told_from_others(folder: str, version: str | None) -> None:
    assert probe.version_of(folder) == version


def test_only_folders_from_which_dkms_builds_are_sources(tmp_path: Path) -> None:
    for name in ("nvidia-550.54.15", "nvidia-fs-2.20.5"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "dkms.conf").touch()
    (tmp_path / "nvidia-535.104.05").mkdir()
    found = probe.gather((str(tmp_path / "nvidia-550.54.15"), "/nowhere"), f"{tmp_path}/nvidia-*/dkms.conf")
    assert found.sources == {str(tmp_path / "nvidia-550.54.15"): "550.54.15"}
    assert found.installer == (str(tmp_path / "nvidia-550.54.15"),)


def test_packages_that_are_neither_there_nor_gone() -> None:
    lines = [
        "nvidia-kernel-open-dkms\t580.178.04-1\tiF \tnvidia-kernel-open-dkms\tamd64",
        "libcuda1\t580.178.04-1\thi \tlibcuda1\tamd64",
        "nvidia-smi\t535.261.03-1\trc \tnvidia-graphics-drivers\tamd64",
        "vim\t9\tiU \tvim\tamd64",
    ]
    assert parse_halves("\n".join(lines)) == {"nvidia-kernel-open-dkms": "half configured"}
    assert set(parse_dpkg("\n".join(lines))) == {"libcuda1"}


@pytest.mark.parametrize(
    ("database", "state", "command"),
    [
        ("dpkg", "half configured", "dpkg --configure -a"),
        ("rpm", "there in versions '3:580.95.05-1.el9' and '3:595.71.05-1.el9'", "dnf remove --duplicates"),
    ],
)
def test_what_finishes_half_a_package_is_of_its_package_manager(
    database: str, state: str, command: str
) -> None:
    raw = ready()
    raw.update(package_database=database, half_packages={"nvidia-driver-libs": state})
    (problem,) = foreign.halves(parse(raw), "gpu-1")
    assert problem.cause.startswith(f"Node 'gpu-1': package 'nvidia-driver-libs' is {state}: ")
    assert f"run '{command}' on 'gpu-1'" in problem.next_step
    (note,) = foreign.half_notes(parse(raw))
    assert f"package 'nvidia-driver-libs' was {state} when the run began" in note
    assert f"'{command}'" in note


@pytest.mark.parametrize(
    "half",
    [
        parse_halves("nvidia-dkms-580-open\t580.178.04-1ubuntu1\tiF \tnvidia-graphics-drivers-580\tamd64"),
        parse_halves("nvidia-kernel-open-dkms\t580.178.04-1\tiU \tnvidia-kernel-open-dkms\tamd64"),
        parse_twice(
            "kmod-nvidia-open-dkms\t3:580.95.05-1.el9\tnoarch\tkmod-nvidia-open-dkms-580.95.05-1.el9.src.rpm\n"
            "kmod-nvidia-open-dkms\t3:580.178.04-1.el9\tnoarch\tkmod-nvidia-open-dkms-580.178.04-1.el9.src.rpm"
        ),
    ],
)
def test_sources_of_a_package_that_a_killed_run_left_are_its_own(half: dict[str, str]) -> None:
    """A machine that loses power while DKMS compiles; the role finishes the package."""
    assert half
    tree = facts()
    tree["record"]["foreign"] = {"sources": {"/usr/src/nvidia-580.178.04": "580.178.04"}}
    assert [refused.message for refused in judge(tree, run(**WANTED), TABLES)] != []
    tree["record"]["half_packages"] = half
    assert [refused.message for refused in judge(tree, run(**WANTED), TABLES)] == []


def test_preflight_refuses_sources_that_no_package_has() -> None:
    tree = facts()
    tree["record"]["foreign"] = {"sources": {"/usr/src/nvidia-550.54.15": "550.54.15"}}
    (refused,) = judge(tree, run(**WANTED), TABLES)
    assert "/usr/src/nvidia-550.54.15" in refused.message


def test_preflight_refuses_somebody_elses_driver_where_there_is_to_be_none() -> None:
    tree = {**facts(), "foreign_driver": ["/usr/bin/nvidia-uninstall"]}
    (refused,) = judge(tree, run(**WANTED, nvidia_driver_state="absent"), TABLES)
    assert "'/usr/bin/nvidia-uninstall', which no package owns" in refused.message
