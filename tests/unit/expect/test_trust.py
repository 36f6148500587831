"""What role host_baseline makes of the trust store, from one record of the probe."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from gpusmith.expect import forecast
from gpusmith.inventory.authorities import digests
from tests.authorities import authority
from tests.unit.expect.role_plans import host_baseline_plan

from .test_host import CONVERGED, SETTINGS

SITE = {"site": authority().certificate}
LACKS = "the trust store has not the certificate of authority 'site' that the inventory has"


def planned(trust: dict[str, Any], certificates: dict[str, str]) -> dict[str, Any]:
    record = {**copy.deepcopy(CONVERGED), "trust": trust}
    found: dict[str, Any] = host_baseline_plan(record, {**SETTINGS, "authorities": certificates})
    return found


@pytest.mark.parametrize("wanted", [{}, SITE])
def test_what_is_trusted_is_left_alone(wanted: dict[str, str]) -> None:
    plan = planned({"authorities": digests(wanted)}, wanted)
    assert (plan["problems"], plan["trust_outdated"]) == ([], False)


@pytest.mark.parametrize(
    ("trust", "wanted", "problems"),
    [
        ({}, SITE, [LACKS]),
        # The file is there, the store was not made anew.
        ({"authorities": {"site": ""}}, SITE, [LACKS]),
        # Another certificate of the same name.
        ({"authorities": digests({"site": authority().certificate})}, SITE, [LACKS]),
        (
            {"authorities": {**digests(SITE), "old": "digest"}},
            SITE,
            ["the trust store has authority 'old', which the inventory does not list any more"],
        ),
        ({"pending": True}, {}, ["a change of the trust store was begun and did not end"]),
    ],
)
def test_what_differs_is_named_and_the_store_made_anew(
    trust: dict[str, Any], wanted: dict[str, str], problems: list[str]
) -> None:
    plan = planned(trust, wanted)
    assert plan["problems"] == problems
    assert plan["trust_outdated"] is True
    told = forecast.of_role("host_baseline", plan)["changes"]["more"]
    assert told == ["the trust store is made anew, for which a containerd that runs is restarted"]


def test_a_role_alone_takes_no_private_key() -> None:
    with pytest.raises(AnsibleFilterError, match="one certificate in PEM"):
        planned({}, {"site": "no certificate"})
