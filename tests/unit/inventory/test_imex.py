"""Lists of the nodes of an IMEX domain: what the service takes, and what fits together."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.inventory import imex
from gpusmith.inventory.rules import RULES
from gpusmith.inventory.specs import load
from gpusmith.inventory.variables import check_hosts

NODES = ["10.0.0.1", "10.0.0.2"]


@pytest.mark.parametrize("given", [[], NODES, ["fd00::1", "fd00::2"], ["{{ address }}"], "a text"])
def test_what_may_be(given: Any) -> None:
    assert list(RULES[imex.VARIABLE](imex.VARIABLE, given)) == []


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["gpu-1"], "'nvidia_driver_imex_nodes[0]' must be an IP address, such as '10.0.0.1', not 'gpu-1'."),
        (["10.0.0.1", "10.0.0.0/24"], "[1]' must be an IP address"),
        ([1], "[0]' must be an IP address"),
        (["10.0.0.1", "10.0.0.1"], "a list with each address once, not '10.0.0.1 twice'"),
        (["fd00::1", "fd00:0::1"], "each address once"),
    ],
)
def test_what_is_no_address_or_twice_the_same_is_refused(given: Any, says: str) -> None:
    (refusal,) = RULES[imex.VARIABLE](imex.VARIABLE, given)
    assert says in refusal.message


def host(nodes: Any, **more: Any) -> dict[str, Any]:
    return {imex.VARIABLE: nodes, imex.COMPONENTS: ["imex"], **more}


def refused(**hosts: dict[str, Any]) -> list[str]:
    return [refusal.message for refusal in check_hosts(hosts, load())]


def test_a_list_needs_the_component_that_reads_it() -> None:
    found = refused(a={imex.VARIABLE: NODES}, b=host(NODES, nvidia_driver_components=["nscq"]), c=host(NODES))
    wanted = "'nvidia_driver_imex_nodes' names nodes, and 'nvidia_driver_components' has no 'imex', which brings the service."
    assert found == [f"Hosts 'a', 'b': {wanted}"]
    assert refused(a={imex.VARIABLE: []}, b=host(NODES, nvidia_driver_components="{{ parts }}")) == []


def test_nodes_of_one_domain_have_one_list_in_one_order() -> None:
    assert refused(a=host(NODES), b=host(NODES), c=host(["10.0.1.1"]), d=host(["{{ address }}"])) == []
    for other in ([*NODES, "10.0.0.3"], NODES[::-1]):
        (message,) = refused(a=host(NODES), b=host(other), c=host(NODES))
        assert message.startswith("Hosts 'a', 'b': 'nvidia_driver_imex_nodes' differs between nodes")
        assert "both lists have '10.0.0." in message
