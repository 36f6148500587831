"""Names of variables: misspelt, unknown, removed."""

from __future__ import annotations

import pytest

from gpusmith.inventory.names import REMOVED, check_extra_names, check_inventory_names
from gpusmith.inventory.specs import Spec, Specs, load

SPECS = Specs(
    {"nvidia_driver_version": Spec("str"), "gpusmith_validate": Spec("str")},
    ("nvidia_driver", "cuda_toolkit"),
)


def test_extra_variables_must_be_declared() -> None:
    found = check_extra_names(
        ["wrong_variable", "gpusmith_validate", "ansible_user", "__guard_cluster"], SPECS
    )
    assert [refusal.message for refusal in found] == [
        "Variable '__guard_cluster', given with -e, does not exist.",
        "Variable 'wrong_variable', given with -e, does not exist.",
    ]


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("nvidia_driver_verison", "nvidia_driver_version"), ("nvdia_driver_version", "nvidia_driver_version")],
)
def test_misspelt_names_are_refused_and_the_nearest_is_offered(name: str, nearest: str) -> None:
    (refusal,) = check_inventory_names([name], SPECS)
    assert f"'{name}'" in refusal.message
    assert f"'{nearest}'" in refusal.hint


@pytest.mark.parametrize("name", ["my_site_variable", "ansible_host", "nvidia_driver_version", "rack"])
def test_other_names_in_the_inventory_are_the_users_business(name: str) -> None:
    assert check_inventory_names([name], SPECS) == []


@pytest.mark.parametrize("name", REMOVED)
def test_removed_names_are_refused_and_say_why(name: str) -> None:
    assert name not in load().variables
    for (refusal,) in (check_inventory_names([name], load()), check_extra_names([name], load())):
        assert refusal.hint == REMOVED[name]
