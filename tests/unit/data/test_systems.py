"""Which file of a role says what differs on a system."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpusmith.data import systems
from gpusmith.data.systems import UnknownSystem
from gpusmith.paths import repo_root

ROCKY = {"distribution": "Rocky", "distribution_major_version": "9", "os_family": "RedHat"}
DEBIAN = {"distribution": "Debian", "distribution_major_version": "12", "os_family": "Debian"}


def role(tmp_path: Path, *names: str) -> Path:
    folder = tmp_path / "some_role" / "vars"
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch()
    return folder


@pytest.mark.parametrize("at", range(4))
def test_the_closest_file_wins(tmp_path: Path, at: int) -> None:
    names = ["Rocky_9.yml", "Rocky.yml", "RedHat_9.yml", "RedHat.yml"]
    folder = role(tmp_path, "main.yml", "Debian_12.yml", *names[at:])
    assert systems.choose(folder, ROCKY).name == names[at]


def test_a_family_that_is_called_like_the_distribution_is_asked_once() -> None:
    assert systems.candidates(DEBIAN) == ["Debian_12.yml", "Debian.yml"]


def test_an_unknown_system_is_named_with_what_there_is(tmp_path: Path) -> None:
    folder = role(tmp_path, "main.yml", "Debian_12.yml", "Ubuntu.yml")
    with pytest.raises(UnknownSystem) as caught:
        systems.choose(folder, ROCKY)
    for words in ("'some_role'", "'Rocky 9'", "'RedHat'", "Debian_12.yml, Ubuntu.yml", "RedHat_9.yml"):
        assert words in str(caught.value)
    assert "main.yml" not in str(caught.value)


@pytest.mark.parametrize("facts", [{}, {**DEBIAN, "os_family": ""}])
def test_a_host_without_facts_is_told_so(tmp_path: Path, facts: dict[str, Any]) -> None:
    with pytest.raises(UnknownSystem, match=r"facts lack .*os_family"):
        systems.choose(role(tmp_path, "Debian.yml"), facts)


def test_a_role_of_the_house_is_found_for_the_lab() -> None:
    assert systems.choose(repo_root() / "roles/nvidia_driver/vars", DEBIAN).name == "Debian.yml"


def test_a_variable_of_the_file_is_read(tmp_path: Path) -> None:
    folder = role(tmp_path, "Debian.yml")
    (folder / "Debian.yml").write_text("__some_names: {packages: [containerd.io]}\n")
    assert systems.value(folder, DEBIAN, "__some_names") == {"packages": ["containerd.io"]}
    with pytest.raises(UnknownSystem, match="does not have '__other'"):
        systems.value(folder, DEBIAN, "__other")


def test_a_release_has_only_what_differs_from_its_family(tmp_path: Path) -> None:
    folder = role(tmp_path, "Debian_12.yml", "Debian.yml")
    (folder / "Debian_12.yml").write_text("__kernel: of the release\n")
    (folder / "Debian.yml").write_text("__kernel: of the family\n__layouts: of all\n")
    assert systems.value(folder, DEBIAN, "__kernel") == "of the release"
    assert systems.value(folder, DEBIAN, "__layouts") == "of all"


@pytest.mark.parametrize(
    ("role_name", "variable"),
    [
        ("nvidia_driver", "__nvidia_driver_layouts"),
        ("nvidia_driver", "__nvidia_driver_kernel"),
        ("containerd", "__containerd_names"),
        ("nvidia_container_toolkit", "__nvidia_container_toolkit_names"),
        ("kubernetes_node", "__kubernetes_node_names"),
        ("cuda_toolkit", "__cuda_toolkit_names"),
    ],
)
def test_names_are_plain_data_that_the_controller_can_read(role_name: str, variable: str) -> None:
    found = systems.value(repo_root() / f"roles/{role_name}/vars", DEBIAN, variable)
    assert "{{" not in str(found)
