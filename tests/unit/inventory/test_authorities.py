"""A site's own authorities: what may be said of them, and what their files have."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.errors import InputError
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
        ({"site": SITE.certificate + SITE.certificate}, "not 'a text with 2 of them and more'"),
        # A cut chain would end the reading of the whole trust store for programs with OpenSSL.
        ({"site": f"{SITE.certificate}-----BEGIN CERTIFICATE-----\nbroken"}, "must be one certificate in PEM"),
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


@pytest.mark.parametrize("noise", ["{}", "\n\n{}\n", "Subject: CN=x, é\n{}", "{}Trailing words\n"])
def test_files_have_the_certificate_alone_and_say_whose_they_are(noise: str) -> None:
    head = "# Written by gpusmith (role host_baseline); changes are overwritten."
    for text in (SITE.certificate, SITE.certificate.replace("\n", "\r\n")):
        assert authorities.texts({"site": noise.format(text)}) == {"site": f"{head}\n{SITE.certificate}"}
    assert authorities.texts(None) == {}


def test_a_digest_is_that_of_the_certificate() -> None:
    other = authority().certificate
    found = authorities.digests({"a": SITE.certificate, "b": f"a comment\n{SITE.certificate}", "c": other})
    assert found["a"] == found["b"] != found["c"]


def test_who_has_no_guard_is_refused_as_well() -> None:
    with pytest.raises(InputError, match="has a private key"):
        authorities.texts({"site": SITE.certificate + SERVER.key})
