"""Operating systems of the lab's machines, and what they say of themselves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from gpulab import systems
from gpulab.artifacts import debian
from gpulab.artifacts.sources import IMAGES

from gpusmith.errors import InputError

EVERY = list(systems.known().values())
OTHERS = [row for row in EVERY if row.user_land]


def overlaid(row: systems.System, path: str) -> str:
    """A file of a system's overlays, the last one's if several have it."""
    found = [IMAGES / name / path for name in row.overlays if (IMAGES / name / path).exists()]
    return found[-1].read_text()


@pytest.mark.parametrize("row", EVERY, ids=lambda row: row.name)
def test_what_the_table_names_is_there(row: systems.System) -> None:
    assert debian.load(row.rootfs).packages
    assert all((IMAGES / name).is_dir() for name in row.overlays)
    assert all((IMAGES / name).stat().st_mode & 0o111 for name in row.hooks)


def test_images_have_names_of_their_own() -> None:
    assert len({row.image for row in EVERY}) == len(EVERY)


@pytest.mark.parametrize("row", OTHERS, ids=lambda row: row.name)
def test_a_machine_says_what_it_is(row: systems.System) -> None:
    assert "Debian user land" in row.user_land
    files = dict(row.identity())
    assert files["/etc/issue"].startswith(row.user_land)
    assert files[systems.USER_LAND_FILE].strip() == row.user_land
    # The name that kubelet, and so 'kubectl get nodes -o wide', shows.
    release = overlaid(row, "usr/lib/os-release")
    assert f'PRETTY_NAME="{row.user_land} (gpusmith lab)"'.lower() in release.lower()
    assert f"ID={row.name.split('-')[0]}" in release.replace('"', "").splitlines()


def test_debian_says_nothing_of_the_kind() -> None:
    assert [row.identity() for row in EVERY if row not in OTHERS] == [(), ()]


def test_the_probe_reads_what_the_lab_writes() -> None:
    probe = Path(__file__).parents[3] / "src/gpusmith/probe/host.py"
    assert f'"{systems.USER_LAND_FILE}"' in probe.read_text()


def test_ansible_takes_ubuntu_for_ubuntu() -> None:
    """Its facts call every system Debian whose os-release has that word, spelt so."""
    release = overlaid(systems.system("ubuntu-24.04"), "usr/lib/os-release")
    assert "Debian" not in release
    assert "Ubuntu" in release


def test_the_tag_of_packages_is_that_of_the_release() -> None:
    for row in (row for row in EVERY if row.manager == "dnf"):
        major = row.name.split("-")[1]
        assert row.tag == f"el{major}"
        assert f"%dist .el{major}" in overlaid(row, "usr/lib/rpm/macros.d/macros.dist")
        assert overlaid(row, "etc/dnf/vars/releasever").strip() == major
        assert re.search(rf'^VERSION_ID="{major}\.', overlaid(row, "usr/lib/os-release"), re.MULTILINE)


def test_an_unknown_system_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"'hurd'.*rocky-9"):
        systems.system("hurd")
