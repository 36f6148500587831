"""A site's own authorities: what may be said of them, and what their files have."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.inventory import authorities
from gpusmith.inventory.rules import RULES
from tests.authorities import authority

SITE = authority()
SERVER = SITE.server("127.0.0.1")


def found(value: Any) -> list[str]:
    return [refusal.message for refusal in authorities.rules(authorities.VARIABLE, value)]


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        {"site": SITE.certificate, "site-2": f"a comment\n{authority().certificate}\n\n"},
        {"site": "{{ lookup('file', 'site.pem') }}"},
        "{{ certificates_of_site }}",
    ],
)
def test_what_may_be(value: Any) -> None:
    assert found(value) == []


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([SITE.certificate], "'gpusmith_ca_certificates' must be a mapping of names to certificates, not 'list'"),
        (SITE.certificate, "must be a mapping of names to certificates, not 'str'"),
        ({"../site": SITE.certificate}, "names of small letters, digits and '-', not '../site'"),
        ({1: SITE.certificate}, "not 1"),
        ({"site": ""}, "'gpusmith_ca_certificates.site' must be one certificate in PEM"),
        ({"site": None}, "not 'a text with 0 of them'"),
        ({"site": SITE.certificate[:200]}, "not 'a text with 0 of them'"),
        ({"site": SITE.certificate + SITE.certificate}, "not 'a text with 2 of them'"),
        ({"site": SERVER.certificate}, "is the certificate of 'CN=server', which is no authority"),
        ({"site": SITE.certificate + SERVER.key}, "'gpusmith_ca_certificates.site' has a private key"),
    ],
)  # fmt: skip
def test_what_may_not_be(value: Any, says: str) -> None:
    (message,) = found(value)
    assert says in message
    assert SERVER.key.splitlines()[1] not in message


def test_the_guard_goes_by_it() -> None:
    assert RULES[authorities.VARIABLE] is authorities.rules


def test_files_say_whose_they_are() -> None:
    text = authorities.texts({"site": f"\n{SITE.certificate}\n"})["site"]
    assert text == f"# Written by gpusmith (role host_baseline); changes are overwritten.\n{SITE.certificate}"
    assert authorities.texts(None) == {}
