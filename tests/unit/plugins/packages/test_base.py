"""What is the same for all package managers: versions, sets of one version, the choice of a backend."""

from __future__ import annotations

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils import packages
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import (
    base,
    matching,
)


@pytest.mark.parametrize(
    ("version", "wanted", "expected"),
    [
        ("1.36.3-1.1", "1.36.3", True),
        ("1:1.36.3-1", "1.36.3", True),
        ("1.36.3-1.1", "1.36.3-1.1", True),
        ("1.36.30-1.1", "1.36.3", False),
        ("1.36.3-1.1", "1.36", False),
        ("12.8.1-1", "12.8.*", True),
        ("12.80.1-1", "12.8.*", False),
        (None, "1.36.3", False),
    ],
)
def test_satisfies(version: str | None, wanted: str, expected: bool) -> None:
    assert matching.satisfies(version, wanted) is expected


def test_a_set_gets_one_revision_although_a_newer_one_has_parts_of_it() -> None:
    offers = {
        "lib": ["580.159.03-1ubuntu1", "580.159.03-0ubuntu0.24.04.1"],
        "smi": ["580.159.03-0ubuntu0.24.04.1"],
    }
    wanted = dict.fromkeys(offers, "580.159.03")
    assert matching.exact(offers, wanted) == dict.fromkeys(offers, "580.159.03-0ubuntu0.24.04.1")
    # What is there already decides as well.
    assert matching.exact({"lib": ["1-2", "1-1"], "smi": ["1-1"]}, {"lib": "1", "smi": "1"}) == {
        "lib": "1-1",
        "smi": "1-1",
    }


def test_different_revisions_are_taken_where_there_is_no_common_one() -> None:
    offers = {"lib": ["1.0-2"], "smi": ["1.0-1"], "alone": ["2.0-1"]}
    assert matching.exact(offers, {"lib": "1.0", "smi": "1.0", "alone": "2.0", "none": "1.0"}) == {
        "lib": "1.0-2",
        "smi": "1.0-1",
        "alone": "2.0-1",
    }


def test_a_full_version_is_preferred_to_one_that_begins_like_it() -> None:
    assert matching.newest_match(["1.0-1+b2", "1.0-1"], "1.0-1") == "1.0-1"


@pytest.mark.parametrize(
    ("programs", "name"),
    [({"apt-get", "dpkg"}, "apt"), ({"dnf", "yum"}, "dnf"), ({"zypper"}, "zypper"), (set(), "")],
)
def test_the_package_manager_has_a_name(programs: set[str], name: str) -> None:
    assert packages.manager(lambda program: program if program in programs else None) == name


@pytest.mark.parametrize(("name", "says"), [("zypper", "'zypper'"), ("", "No known package manager")])
def test_other_package_managers_are_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, name: str, says: str
) -> None:
    monkeypatch.setattr(packages, "manager", lambda: name)
    with pytest.raises(base.PackageError, match=says):
        packages.backend()
