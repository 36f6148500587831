from __future__ import annotations

import pytest
from gpulab.network import Plan, refuse_taken

from gpusmith.errors import InputError


def test_fixed_addresses() -> None:
    plan = Plan.parse("10.77.0.0/24")
    assert (plan.depot, plan.registry, plan.control_plane) == ("10.77.0.2", "10.77.0.2:5000", "10.77.0.10")


@pytest.mark.parametrize(
    "text", ["", "10.77.0.0", "10.77.0.1/24", "10.77.0.0/16", "fd00::/64", "10.244.3.0/24", "10.100.0.0/24"]
)
def test_unusable_subnets_are_refused_by_name(text: str) -> None:
    with pytest.raises(InputError, match=f"'{text}'"):
        Plan.parse(text)


def test_a_subnet_in_use_names_its_device() -> None:
    with pytest.raises(InputError, match=r"'10\.0\.0\.0/8' is routed to 'tun0'.*--subnet"):
        refuse_taken(Plan.parse("10.77.0.0/24"), [("10.0.0.0/8", "tun0")])


def test_other_routes_do_not_matter() -> None:
    refuse_taken(Plan.parse("10.77.0.0/24"), [("192.0.2.0/24", "eth0"), ("broken", "eth1")])
