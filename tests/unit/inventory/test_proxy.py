"""A site's proxy: what may be said of it, and what programs are told."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.errors import InputError
from gpusmith.inventory import proxy
from gpusmith.inventory.rules import RULES

PROXY = {
    "http": "http://proxy:3128",
    "https": "http://proxy:3129",
    "no_proxy": [".example.com", "10.0.0.0/8"],
}


def found(value: Any) -> list[str]:
    return [refusal.message for refusal in proxy.rules(proxy.VARIABLE, value)]


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        PROXY,
        {"https": "https://proxy.example.com/", "http": "http://proxy.example.com.:3128"},
        {"http": "http://[fd00::1]:3128", "no_proxy": ["fd00::/8", "::1", "registry", "a_b.example.com"]},
        {"http": "", "https": None, "no_proxy": None},
    ],
)
def test_what_may_be(value: Any) -> None:
    assert found(value) == []


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("http://proxy:3128", "a mapping with keys http, https and no_proxy"),
        ({"http": "proxy:3128"}, "'gpusmith_proxy.http' must be an address"),
        ({"https": "http://proxy:3128 "}, "'gpusmith_proxy.https' must be an address"),
        ({"https": "http://proxy:3128\nX=1"}, "'gpusmith_proxy.https' must be an address"),
        ({"https": 3128}, "'gpusmith_proxy.https' must be an address"),
        ({"https": "http://me:secret@proxy:3128"}, "has a user or a password"),
        *(
            ({"http": url}, "'gpusmith_proxy.http' must be an address")
            for url in (
                "http://proxy..example.com:1",
                f"http://{'a' * 64}:1",
                "http://proxy:99999",
                "http://proxy:0",
                "http://[1.2.3]:1",
            )
        ),
        ({"no_proxy": "localhost,.example.com"}, "'gpusmith_proxy.no_proxy' must be a list"),
        ({"no_proxy": ["a,b"]}, "'gpusmith_proxy.no_proxy[0]' must be a name"),
        ({"no_proxy": ["a", "*.example.com"]}, "'gpusmith_proxy.no_proxy[1]' must be a name"),
        ({"no_proxy": ["a b"]}, "'gpusmith_proxy.no_proxy[0]' must be a name"),
        ({"no_proxy": [10]}, "'gpusmith_proxy.no_proxy[0]' must be a name"),
    ],
)
def test_what_may_not(value: Any, says: str) -> None:
    assert len(found(value)) == 1
    assert says in found(value)[0]
    assert "secret" not in found(value)[0]


def test_ports_are_written_out_since_programs_take_different_ones() -> None:
    given = {"http": "http://proxy/", "https": "https://[fd00::1]"}
    assert proxy.addresses(given) == {"HTTP_PROXY": "http://proxy:80", "HTTPS_PROXY": "https://[fd00::1]:443"}
    assert proxy.addresses(None) == {}


def test_what_services_are_told() -> None:
    told = proxy.environment(PROXY, ["gpu-1", "", "10.0.0.1:6443", "[fd00::1]:6443", "fd00::2", "localhost"])
    assert told == {
        "HTTP_PROXY": "http://proxy:3128",
        "HTTPS_PROXY": "http://proxy:3129",
        "NO_PROXY": (
            "localhost,127.0.0.1,::1,.svc,.cluster.local,gpu-1,10.0.0.1,fd00::1,fd00::2,.example.com,10.0.0.0/8"
        ),
    }
    assert proxy.file_text("# head", {"https": "http://p"}) == (
        "# head\nHTTPS_PROXY=http://p:80\nNO_PROXY=localhost,127.0.0.1,::1,.svc,.cluster.local\n"
    )


@pytest.mark.parametrize("given", [None, {}, {"no_proxy": ["a"]}, {"http": "", "https": None}])
def test_without_a_proxy_nobody_is_told(given: Any) -> None:
    assert proxy.environment(given, ["gpu-1"]) == {}
    assert proxy.file_text("# head", given) == ""


def test_package_managers_go_by_lower_case() -> None:
    told = proxy.for_package_managers({"http": "http://p"})
    assert set(told) == {"http_proxy", "no_proxy"}


@pytest.mark.parametrize("name", ["gpusmith_proxy", "containerd_proxy", "kubernetes_node_proxy"])
def test_every_variable_of_it_is_judged(name: str) -> None:
    assert [each.message for each in RULES[name](name, {"https": "http://me:secret@proxy"})] != []


def test_a_role_without_the_guard_does_not_write_what_may_not_be() -> None:
    with pytest.raises(InputError, match="must be an address"):
        proxy.file_text("# head", {"https": "http://p:1\nLD_PRELOAD=/x"})


@pytest.mark.parametrize(
    ("name", "is_near"),
    [
        ("localhost", True),
        ("a.example.com", True),
        ("aexample.com", False),
        ("10.0.0.5", True),
        ("11.0.0.5", False),
        ("mirror", True),
        ("a.mirror", True),
        ("amirror", False),
    ],
)
def test_who_is_asked_without_the_proxy(name: str, is_near: bool) -> None:
    assert proxy.is_near(name, {**PROXY, "no_proxy": [*PROXY["no_proxy"], "mirror"]}) is is_near
