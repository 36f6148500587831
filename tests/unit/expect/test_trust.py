"""What role host_baseline makes of the trust store, from one record of the probe."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.gpusmith.gpu.plugins.filter.host_baseline_plan import host_baseline_plan

from gpusmith.expect import forecast
from gpusmith.expect.files import digest
from gpusmith.inventory.authorities import texts

from .test_host import CONVERGED, SETTINGS

FOLDER = "/usr/local/share/ca-certificates"
PATH, OLD = f"{FOLDER}/gpusmith-site.crt", f"{FOLDER}/gpusmith-old.crt"
TEXT = texts({"site": "PEM"})["site"]


def trusting() -> dict[str, Any]:
    tree = copy.deepcopy(CONVERGED)
    tree["managed_files"][PATH] = digest(TEXT)
    return {**tree, "marked_files": [PATH], "trusted": [PATH]}


def planned(record: dict[str, Any], **certificates: str) -> dict[str, Any]:
    given = {"certificates": certificates, "folder": FOLDER, "suffix": ".crt"}
    found: dict[str, Any] = host_baseline_plan(record, {**SETTINGS, "trust": given})
    return found


def test_what_is_trusted_is_left_alone() -> None:
    plan = planned(trusting(), site="PEM")
    assert (plan["problems"], plan["contents"], plan["distrusted"], plan["trust_outdated"]) == (
        [],
        {},
        [],
        False,
    )
    plan = planned(copy.deepcopy(CONVERGED))
    assert (plan["problems"], plan["trust_outdated"]) == ([], False)


def test_a_new_authority_is_written_and_the_store_made_anew() -> None:
    plan = planned(copy.deepcopy(CONVERGED), site="PEM")
    assert plan["contents"] == {PATH: TEXT}
    assert plan["trust_outdated"] is True
    assert plan["problems"] == [f"file '{PATH}' is missing, wanted as the inventory says"]
    told = forecast.of_role("host_baseline", plan)["changes"]["more"]
    assert told == ["the trust store is made anew, and containerd is restarted for it"]


def test_a_run_that_ended_before_the_store_was_made_anew_is_taken_up() -> None:
    record = {**trusting(), "trusted": []}
    plan = planned(record, site="PEM")
    assert (plan["contents"], plan["trust_outdated"]) == ({}, True)
    assert plan["problems"] == [
        "the trust store has no certificate of authority 'site', which the inventory lists"
    ]


@pytest.mark.parametrize("left", [{}, {"site": "PEM"}])
def test_one_that_leaves_the_inventory_leaves_the_store(left: dict[str, str]) -> None:
    record = trusting()
    record["marked_files"] = [OLD, *record["marked_files"], "/usr/local/share/ca-certificates/other.crt"]
    gone = [OLD] if left else [OLD, PATH]
    plan = planned(record, **left)
    assert plan["distrusted"] == gone
    assert plan["trust_outdated"] is True
    assert plan["problems"] == [
        f"the trust store has the authority of '{path}', which the inventory does not list any more"
        for path in gone
    ]
