"""A branch, or the latest driver: one exact version for all nodes that get it, and nodes that serve keep theirs."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.checks.driver import driver_versions
from gpusmith.errors import Refusal
from gpusmith.expect import choice, offers
from gpusmith.expect.choice import Choice, Offer
from gpusmith.node.facts import NodeFacts
from gpusmith.node.records import parse
from tests.unit.expect.role_plans import driver_parts, driver_plan
from tests.unit.expect.test_driver import LAYOUTS, ROW, SETTINGS, VERSION, bare
from tests.unit.families.systems import value
from tests.unit.hosts import make_host
from tests.unit.records import healthy_record

PACKAGES = [*ROW["packages"], "nvidia-kernel-open-dkms", "nvidia-fabricmanager"]
FIRST, SECOND, OTHER = "580.95.05", "580.178.04", "595.91.07"


def offered(*versions: str, **but: list[str]) -> dict[str, list[str]]:
    """All packages in these versions, but for some (underscores for hyphens in their names)."""
    found = {name: [f"{version}-1" for version in versions] for name in PACKAGES}
    return {**found, **{name.replace("_", "-"): each for name, each in but.items()}}


def could_have(raw: dict[str, Any], asked: str, there: dict[str, list[str]]) -> Offer:
    record = parse(raw)
    return offers.offer(
        record, asked, offers.names(record, *driver_parts({**SETTINGS, "version": asked}, LAYOUTS)), there
    )


# --- what one node could have ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "versions"),
    [("580", (SECOND, FIRST)), ("595", (OTHER,)), ("latest", (OTHER, SECOND, FIRST))],
)
def test_versions_of_what_is_asked_for_the_newest_first(asked: str, versions: tuple[str, ...]) -> None:
    assert could_have(bare(), asked, offered(FIRST, OTHER, SECOND)) == Offer(asked, versions)


def test_a_version_of_which_a_package_is_missing_is_none() -> None:
    there = offered(FIRST, SECOND, nvidia_fabricmanager=[f"{FIRST}-1"])
    assert could_have(bare(), "580", there).versions == (FIRST,)


def test_a_version_that_the_gpu_does_not_take_is_none() -> None:
    found = could_have(bare(), "latest", offered("515.105.01", "510.47.03"))
    assert found.versions == ()
    assert "h100" in str(found.refusal)


def test_a_module_that_does_not_compile_for_the_kernel_is_none() -> None:
    raw = bare()
    raw["host"]["kernel"] = "6.1.0-56-amd64"
    there = offered("535.261.03", "535.309.01")
    assert could_have(raw, "535", there).versions == ("535.309.01",)
    assert "does not compile" in str(could_have(raw, "535", offered("535.261.03")).refusal)


def test_a_branch_that_nobody_offers_is_told_with_what_there_is() -> None:
    found = could_have(bare(), "570", offered(SECOND, OTHER))
    assert "'570'" in str(found.refusal)
    assert f"'{OTHER}', '{SECOND}'" in str(found.refusal)


def test_a_missing_package_is_named() -> None:
    assert "'nvidia-fabricmanager'" in str(
        could_have(bare(), "580", offered(SECOND, nvidia_fabricmanager=[])).refusal
    )


def test_names_differ_between_branches_and_systems() -> None:
    known = value("nvidia_driver", "Ubuntu 24", "__nvidia_driver_layouts")
    record = parse(bare())
    found = offers.names(record, *driver_parts({**SETTINGS, "version": "latest"}, known))
    assert "libnvidia-compute-580" in found[580][1]
    assert "libnvidia-compute" in found[595][1]
    # A transitional branch has no driver of its own.
    archive = offers.names(
        record,
        *driver_parts(
            {
                **SETTINGS,
                "version": "latest",
                "package_layout": "distribution",
                "fabric_manager": "disabled",
            },
            known,
        ),
    )
    assert 570 not in archive
    assert 580 in archive


# --- one for all -----------------------------------------------------------------------------------------------------


def test_all_get_the_newest_that_each_can_have() -> None:
    given = {"a": Offer("580", (SECOND, FIRST)), "b": Offer("580", (FIRST, "580.65.06"))}
    assert choice.choose(given) == {"a": Choice(FIRST), "b": Choice(FIRST)}
    (line,) = choice.lines(given, choice.choose(given))
    assert (
        line
        == f"Driver '580' is {FIRST} in this run, for a, b. Newer ones are not offered to all: a {SECOND}."
    )


def test_nodes_with_nothing_in_common_get_none_and_all_are_told() -> None:
    found = choice.choose({"a": Offer("580", (SECOND,)), "b": Offer("580", (FIRST,))})
    assert found["a"] == found["b"]
    assert not found["a"].version
    assert f"'a' '{SECOND}'; 'b' '{FIRST}'" in str(found["a"].refusal)


def test_who_asks_for_something_else_chooses_alone() -> None:
    given = {"a": Offer("580", (FIRST,)), "b": Offer("latest", (OTHER, FIRST))}
    assert choice.choose(given) == {"a": Choice(FIRST), "b": Choice(OTHER)}


def test_a_node_without_any_does_not_keep_the_others_from_theirs() -> None:
    why = Refusal("repository: down; allowed: an answer.", "Bring it up.")
    found = choice.choose({"a": Offer("580", (FIRST,)), "b": Offer("580", refusal=why)})
    assert found == {"a": Choice(FIRST), "b": Choice(refusal=why)}


# --- what is meant on a node -----------------------------------------------------------------------------------------


def with_driver(version: str, joined: bool = True) -> dict[str, Any]:
    raw = healthy_record()
    raw["kubernetes"]["joined"] = joined
    for package in raw["packages"].values():
        if package["version"] == f"{VERSION}-1":
            package["version"] = f"{version}-1"
    raw["module"] |= {"installed_version": version, "loaded_version": version}
    raw["library"] |= {"nvml_version": version, "cuda_version": version}
    raw["nvml"]["driver_version"] = version
    raw["kernels"][0]["module_version"] = version
    return raw


@pytest.mark.parametrize(
    ("asked", "joined", "upgrade", "version"),
    [
        ("580", True, False, FIRST),
        ("latest", True, False, FIRST),
        ("580", False, False, FIRST),
        ("latest", False, False, FIRST),
        ("580", True, True, SECOND),
        ("580", False, True, SECOND),
        ("580.65.06", True, False, "580.65.06"),
    ],
)
def test_a_machine_with_a_loaded_driver_keeps_its_version_until_it_is_upgraded(
    asked: str, joined: bool, upgrade: bool, version: str
) -> None:
    record = parse(with_driver(FIRST, joined))
    assert choice.meant(record, asked, SECOND, upgrade) == version
    assert choice.is_to_come(record, asked, upgrade) is (version == SECOND)


def test_what_a_machine_that_has_not_joined_does_not_run_is_no_reason_to_keep_it() -> None:
    installed = with_driver(FIRST, joined=False)
    installed["module"]["loaded_version"] = None
    for raw, asked in ((installed, "580"), (with_driver(OTHER, joined=False), "580")):
        assert choice.is_to_come(parse(raw), asked)
        assert choice.meant(parse(raw), asked, SECOND) == SECOND


def test_of_a_half_done_change_the_version_of_most_packages_counts() -> None:
    raw = with_driver(FIRST)
    raw["packages"]["libcuda1"]["version"] = f"{SECOND}-1"
    assert choice.installed(parse(raw), "580") == FIRST


def test_a_node_that_serves_with_another_branch_keeps_nothing_and_nothing_is_chosen() -> None:
    record = parse(with_driver(OTHER))
    assert choice.meant(record, "580") == "580"
    assert not choice.is_to_come(record, "580")


def test_a_node_that_joined_without_a_driver_gets_one() -> None:
    raw = with_driver(FIRST)
    raw["packages"] = {}
    raw["module"] |= {"installed_version": None, "loaded_version": None}
    assert choice.is_to_come(parse(raw), "580")


# --- role and suite judge the same -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("installed", "right"), [(FIRST, True), (SECOND, True), (OTHER, False)])
def test_role_and_suite_take_any_version_of_the_branch_on_a_node_that_serves(
    installed: str, right: bool
) -> None:
    raw = with_driver(installed)
    facts = NodeFacts(make_host(nvidia_driver_version="580"), parse(raw), None, {})
    assert (driver_versions(facts) == []) is right
    plan = driver_plan(raw, {**SETTINGS, "version": "580", "chosen": VERSION}, LAYOUTS)
    assert (plan["refused"] == "") is right
    assert plan["drift"] == []
    assert plan["version"] == (installed if right else "580")


def test_the_role_installs_what_was_chosen() -> None:
    plan = driver_plan(bare(), {**SETTINGS, "version": "latest", "chosen": OTHER}, LAYOUTS)
    assert (plan["version"], plan["refused"]) == (OTHER, "")


def test_without_a_choice_the_role_says_why_there_is_none() -> None:
    plan = driver_plan(bare(), {**SETTINGS, "version": "580", "unchosen": "The mirror is empty."}, LAYOUTS)
    assert plan["refused"].endswith("The mirror is empty.")
