"""Names of variables: misspelt, unknown, removed."""

from __future__ import annotations

import re

import pytest
import yaml

from gpusmith.data import other_names
from gpusmith.inventory.names import check_extra_names, check_inventory_names
from gpusmith.inventory.specs import Spec, Specs, did_you_mean, load
from gpusmith.paths import repo_root

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


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nvidia_driver_branch", "NVIDIA's role nvidia.nvidia_driver; here it is 'nvidia_driver_version'."),
        ("containerd_registries_mirrors", "kubespray; here it is 'containerd_registries'."),
        ("containerd_storage_dir", "kubespray; gpusmith has none for it: take it out."),
        ("gpusmith_gpus", "Did you mean 'gpusmith_gpu_count'?"),
        ("gpu_operands_kubeconfig", "use 'gpusmith_kubeconfig'."),
    ],
)
def test_names_of_others_and_former_ones_say_what_to_use(name: str, says: str) -> None:
    for (refusal,) in (check_inventory_names([name], load()), check_extra_names([name], load())):
        assert refusal.hint.endswith(says)


@pytest.mark.parametrize("name", ["kube_version", "driver.version"])
def test_names_without_our_prefix_matter_on_the_command_line_only(name: str) -> None:
    assert check_inventory_names([name], load()) == []
    (refusal,) = check_extra_names([name], load())
    assert "here it is" in refusal.hint


def test_names_of_others_are_none_of_ours_and_stand_for_one() -> None:
    known, rows = load().variables, other_names.load()
    assert set(rows) & set(known) == set()
    for name, says in rows.items():
        for ours in re.findall(r"'([a-z_0-9]+)'", says):
            assert ours in known, (name, ours)


def test_words_are_those_that_are_spelt_more_like_another_name() -> None:
    words = yaml.safe_load((repo_root() / "data" / "other_names.yml").read_text())["words"]
    for name, ours in words.items():
        assert f"'{ours}'" not in did_you_mean(name, load().variables), name
