"""Copies of edited files outlive what the scripts of packages do."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import kept

EDITED = "/etc/daemon/edited.conf"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "etc/daemon"
    found.mkdir(parents=True)
    (found / "edited.conf").write_text("of the site")
    return found


def purged(folder: Path, afterwards: str = "") -> dict[str, str]:
    """What is there after a script deleted the folder, and perhaps wrote the file anew."""
    root = folder.parents[1]
    with kept.copies(root, kept.places(root, [EDITED])):
        shutil.rmtree(folder)
        if afterwards:
            folder.mkdir()
            (folder / "edited.conf").write_text(afterwards)
    return {path.name: path.read_text() for path in folder.iterdir()} if folder.exists() else {}


def test_a_copy_outlives_its_folder(folder: Path) -> None:
    assert purged(folder) == {f"edited.conf{kept.SUFFIX}": "of the site"}


def test_copies_of_earlier_removals_outlive_it_as_well(folder: Path) -> None:
    (folder / f"edited.conf{kept.SUFFIX}").write_text("earlier")
    assert purged(folder) == {
        f"edited.conf{kept.SUFFIX}": "earlier",
        f"edited.conf{kept.SUFFIX}.1": "of the site",
    }


def test_a_run_that_was_killed_left_a_copy_which_outlives_the_next_one(folder: Path) -> None:
    (folder / f"edited.conf{kept.SUFFIX}").write_text("of the site")
    assert purged(folder) == {f"edited.conf{kept.SUFFIX}": "of the site"}


def test_a_file_that_is_made_anew_is_not_what_somebody_edited(folder: Path) -> None:
    assert purged(folder, "default") == {
        "edited.conf": "default",
        f"edited.conf{kept.SUFFIX}": "of the site",
    }


def test_a_file_that_stays_has_no_copy(folder: Path) -> None:
    assert purged(folder, "of the site") == {"edited.conf": "of the site"}
