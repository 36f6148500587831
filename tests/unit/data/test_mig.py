"""How MIG divides GPUs: the tables against what others say of the same GPUs, and where instances fit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, combinations_with_replacement

import pynvml
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpusmith.data import mig, models
from gpusmith.data.mig import Partitioning, Placement, place
from gpusmith.data.models import Model
from gpusmith.errors import InputError
from gpusmith.paths import repo_root

ROWS = yaml.safe_load((repo_root() / "data/gpus.yml").read_text())["models"]
MODELS = models.load()
DIVIDED = sorted(key for key, model in MODELS.items() if model.mig_table)
A100_40 = "1g.5gb 1g.5gb+me 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb"
A100_80 = "1g.10gb 1g.10gb+me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb"
H200 = "1g.18gb 1g.18gb+me 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb"
NAMES = {
    "a30": "1g.6gb 1g.6gb+me 2g.12gb 2g.12gb+me 4g.24gb",
    **dict.fromkeys(("a100-sxm-40", "a100-pcie-40"), A100_40),
    **dict.fromkeys(("a100-sxm-80", "a100-pcie-80", "h100-sxm", "h100-pcie"), A100_80),
    "h100-nvl": "1g.12gb 1g.12gb+me 1g.24gb 2g.24gb 3g.47gb 4g.47gb 7g.94gb",
    "gh200": "1g.12gb 1g.12gb+me 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb",
    **dict.fromkeys(("h200-sxm", "h200-nvl"), H200),
    "b200": "1g.23gb 1g.23gb+me 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb",
    "rtx-pro-6000": "1g.24gb 1g.24gb+me 1g.24gb-me 2g.48gb 2g.48gb-me 4g.96gb",
}
"""As the MIG user guide and NVIDIA/mig-parted have them; the table has slices alone."""


def divided(key: str) -> Partitioning:
    found = mig.of_model(MODELS[key])
    assert found is not None
    return found


GPUS = st.sampled_from(DIVIDED).map(divided)


def told(placements: Sequence[Placement]) -> str:
    return " ".join(f"{part.profile.name}@{part.start}" for part in placements)


def fits(asked: Sequence[str], gpu: Partitioning) -> bool:
    try:
        place(asked, gpu)
    except InputError:
        return False
    return True


# --- the tables ----------------------------------------------------------------------------------------------------


def test_profiles_are_named_as_nvidia_names_them() -> None:
    assert {key: " ".join(profile.name for profile in divided(key).profiles) for key in DIVIDED} == NAMES


def test_what_no_source_tells_is_not_offered() -> None:
    assert {key for key, row in ROWS.items() if row["mig"]} - set(DIVIDED) == {"b300", "gb200"}
    assert all(ROWS[key]["mig"] for key in DIVIDED)
    assert mig.of_model(MODELS["b300"]) is None


@pytest.mark.parametrize("key", DIVIDED)
def test_a_gpu_has_as_many_instances_as_its_row_says(key: str) -> None:
    assert max(profile.most for profile in divided(key).profiles) == ROWS[key]["mig_instances"]


@pytest.mark.parametrize("gpu", mig.load().values(), ids=mig.load())
def test_a_table_agrees_with_itself_and_with_nvml(gpu: Partitioning) -> None:
    for profile in gpu.profiles:
        assert hasattr(pynvml, f"NVML_GPU_INSTANCE_PROFILE_{profile.nvml}")
        assert profile.nvml.startswith(f"{profile.compute}_SLICE")
        assert profile.most == (1 if profile.media else len(profile.starts))
        assert all(start + profile.memory <= gpu.memory_slices for start in profile.starts)


def test_sources_are_named() -> None:
    content = yaml.safe_load((repo_root() / "data/mig.yml").read_text())
    named = set(chain.from_iterable(table["sources"] for table in content["tables"].values()))
    assert named | {"name_changes"} == set(content["sources"])
    assert all(source["date"] and source["url"] for source in content["sources"].values())


def test_a_resource_is_named_as_the_device_plugin_names_it() -> None:
    resources = [profile.resource for profile in divided("rtx-pro-6000").profiles]
    assert resources[:3] == [
        "nvidia.com/mig-1g.24gb",
        "nvidia.com/mig-1g.24gb.me",
        "nvidia.com/mig-1g.24gb-me",
    ]


# --- what fits on one GPU ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "asked", "found"),
    [
        # Examples of the MIG user guide, 'Getting Started with MIG', as the driver placed them.
        ("a100-sxm-40", ["3g.20gb", "3g.20gb"], "3g.20gb@0 3g.20gb@4"),
        ("a100-sxm-40", ["1g.5gb", "1g.5gb", "2g.10gb", "3g.20gb"], "1g.5gb@0 1g.5gb@1 2g.10gb@2 3g.20gb@4"),
        (
            "a100-sxm-40",
            ["2g.10gb", *["1g.5gb"] * 5],
            "1g.5gb@0 1g.5gb@1 1g.5gb@2 1g.5gb@3 2g.10gb@4 1g.5gb@6",
        ),
        # Four queues of Miyabi (GH200): three with 32 multiprocessors, and one with 26.
        ("gh200", ["1g.24gb", "all-2g.24gb"], "2g.24gb@0 2g.24gb@2 2g.24gb@4 1g.24gb@6"),
        ("h200-sxm", ["all-1g.18gb"], " ".join(f"1g.18gb@{start}" for start in range(7))),
        (
            "b200",
            ["1g.23gb+me", "1g.23gb", "2g.45gb", "3g.90gb"],
            "1g.23gb+me@0 1g.23gb@1 2g.45gb@2 3g.90gb@4",
        ),
        ("a30", ["2g.12gb+me", "1g.6gb", "1g.6gb"], "1g.6gb@0 1g.6gb@1 2g.12gb+me@2"),
        ("a30", [], ""),
    ],
)
def test_instances_are_placed(key: str, asked: list[str], found: str) -> None:
    assert told(place(asked, divided(key))) == found


@pytest.mark.parametrize(
    ("key", "asked", "says"),
    [
        (
            "h100-sxm",
            ["3g.40gb", "3g.40gb", "1g.10gb"],
            (
                "'3g.40gb', '3g.40gb', '1g.10gb' do not fit on one GPU: they need 9 of 8 memory slices. "
                "'3g.40gb', '3g.40gb' would fit."
            ),
        ),
        ("h100-sxm", ["all-1g.10gb", "1g.10gb"], "they need 8 of 7 compute slices. '1g.10gb', "),
        (
            "h100-sxm",
            ["7g.80gb", "1g.10gb"],
            "9 of 8 memory slices, 8 of 7 compute slices. '7g.80gb' would fit",
        ),
        (
            "a30",
            ["1g.6gb+me", "2g.12gb+me"],
            "they need 2 of 1 media extensions (+me). '2g.12gb+me' would fit",
        ),
        ("h200-sxm", ["1g.10gb"], "'1g.10gb' is no MIG profile of this GPU. It has '1g.18gb', '1g.18gb+me',"),
        ("h200-sxm", ["all-"], "'' is no MIG profile"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_does(key: str, asked: list[str], says: str) -> None:
    with pytest.raises(InputError) as refused:
        place(asked, divided(key))
    assert says in str(refused.value)


@pytest.mark.parametrize("key", ["a30", "a100-sxm-40", "rtx-pro-6000"])
def test_whatever_the_slices_suffice_for_fits(key: str) -> None:
    """All layouts there are, so that a refusal always has a number to name."""
    gpu = divided(key)
    for size in range(1, gpu.compute_slices + 1):
        for some in combinations_with_replacement(gpu.profiles, size):
            enough = (
                sum(profile.memory for profile in some) <= gpu.memory_slices
                and sum(profile.compute for profile in some) <= gpu.compute_slices
                and sum(profile.media for profile in some) <= 1
            )
            assert fits([profile.name for profile in some], gpu) == enough, some


@given(data=st.data(), gpu=GPUS)
def test_instances_never_overlap_and_start_where_they_may(data: st.DataObject, gpu: Partitioning) -> None:
    names = st.sampled_from([profile.name for profile in gpu.profiles])
    asked = data.draw(st.lists(names, max_size=gpu.compute_slices))
    try:
        found = place(asked, gpu)
    except InputError:
        return
    assert sorted(part.profile.name for part in found) == sorted(asked)
    assert all(part.start in part.profile.starts for part in found)
    slices = [taken for part in found for taken in range(part.start, part.start + part.profile.memory)]
    assert slices == sorted(set(slices))
    assert sum(part.profile.compute for part in found) <= gpu.compute_slices
    assert sum(part.profile.media for part in found) <= 1
    assert place(data.draw(st.permutations(asked)), gpu) == found


@given(data=st.data(), gpu=GPUS)
def test_all_of_one_profile_are_as_many_as_there_can_be(data: st.DataObject, gpu: Partitioning) -> None:
    profile = data.draw(st.sampled_from(gpu.profiles))
    assert len(place([f"all-{profile.name}"], gpu)) == profile.most
    with pytest.raises(InputError):
        place([profile.name] * (profile.most + 1), gpu)


def test_a_row_of_an_inventory_can_name_a_table() -> None:
    own = {"our-h100": {**ROWS["h100-nvl"], "memory_mib": 81559}}
    model: Model = models.joined({}, own)["our-h100"]
    gpu = mig.of_model(model)
    assert gpu is not None
    assert gpu.profiles[-1].name == "7g.80gb"
