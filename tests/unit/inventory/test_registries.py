"""Registries that are reached by another address: what containerd takes."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.inventory import registries
from gpusmith.inventory.rules import RULES


def found(*rows: Any) -> list[str]:
    return [refusal.message for refusal in registries.rules(registries.VARIABLE, list(rows))]


def row(host: str = "docker.io", endpoint: str = "https://mirror.example.com") -> dict[str, str]:
    return {"host": host, "endpoint": endpoint}


@pytest.mark.parametrize(
    "given",
    [
        row(),
        row("10.77.0.2:5000", "http://10.77.0.2:5000"),
        row("_default", "https://mirror.example.com/v2/all/"),
        row(endpoint="mirror.example.com:5000"),
        row(endpoint="mirror.example.com"),
        row(endpoint="https://mirror.example.com.:5000/v2?ns=docker.io"),
        row("[fd00::1]:5000", "http://[fd00::1]:5000"),
        row("{{ registry }}", "http://{{ registry }}"),
    ],
)
def test_what_may_be(given: dict[str, str]) -> None:
    assert found(given) == []


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (row(endpoint="ftp://mirror.example.com"), "[0].endpoint' must be an address"),
        (row(endpoint="HTTPS://mirror.example.com"), "[0].endpoint' must be an address"),
        (row(endpoint="https://mirror.example.com:8443:5000"), "[0].endpoint' must be an address"),
        (row(endpoint="https://mirror.example.com:99999"), "[0].endpoint' must be an address"),
        (row(endpoint="https://me:secret@mirror.example.com"), "[0].endpoint' must be an address"),
        (row(endpoint='https://mirror.example.com"'), "[0].endpoint' must be an address"),
        (row("https://docker.io"), "[0].host' must be a registry"),
        (row("docker.io/library"), "[0].host' must be a registry"),
        (row("docker.io:70000"), "[0].host' must be a registry"),
    ],
)
def test_what_may_not_be(given: dict[str, str], says: str) -> None:
    (message,) = found(given)
    assert f"'containerd_registries{says}" in message
    assert "secret" not in message


def test_a_host_has_one_address() -> None:
    (message,) = found(row(), row("quay.io"), row(endpoint="http://other"))
    assert "a list with each host once, not \"2 times 'docker.io'\"" in message


def test_the_guard_goes_by_it() -> None:
    assert RULES[registries.VARIABLE] is registries.rules
