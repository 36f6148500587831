"""Repositories of the inventory and their keys."""

from __future__ import annotations

import base64

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import base
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.openpgp import fingerprints
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.repositories import repository_of

# Key of a version 4 (an Ed25519 one); the fingerprint is gpg's.
KEY = """-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEawKHnxYJKwYBBAHaRw8BAQdA9PGxHcc9BVXQYqxMqBa8syxobYuK1fmSUvRM
n4db8ty0ImdwdXNtaXRoIHRlc3QgPHRAZ3B1c21pdGguaW52YWxpZD6IkAQTFggA
OBYhBHvdH5cQEFyptEoLl4+TYqiUp1TsBQJrAoefAhsDBQsJCAcCBhUKCQgLAgQW
AgMBAh4BAheAAAoJEI+TYqiUp1TsDn8BAIQc+h8tl2w56QjRpI/f1SxRYxpgJsJf
ZCpAas3nfFNlAP4vBGaOkmWDvO+rIo4OzWja1waARkAj2elyEAxqt8tMAQ==
=y+Bv
-----END PGP PUBLIC KEY BLOCK-----
"""
FINGERPRINT = "7BDD1F9710105CA9B44A0B978F9362A894A754EC"
REPOSITORY = {"uris": ["http://depot/apt/containerd/"], "suites": ["./"], "components": [], "key": KEY}


@pytest.mark.parametrize(
    ("field", "value"), [("uris", []), ("suites", []), ("key", ""), ("key", "https://keys/one.asc")]
)
def test_repository_without_address_suite_or_key_is_refused(field: str, value: object) -> None:
    with pytest.raises(base.PackageError, match="containerd"):
        repository_of({**REPOSITORY, field: value}, "containerd")


@pytest.mark.parametrize(
    ("given", "signed"),
    [
        ({}, "metadata"),
        ({"type": "rpm", "suites": []}, "packages"),
        ({"type": "rpm", "signed": "both"}, "both"),
        ({"type": "rpm", "signed": "metadata"}, "metadata"),
    ],
)
def test_what_has_to_be_signed_is_said_or_what_is_usual(given: dict[str, object], signed: str) -> None:
    assert repository_of({**REPOSITORY, **given}, "containerd").signed == signed


@pytest.mark.parametrize(
    "given",
    [{"type": "rpm", "signed": "none"}, {"type": "deb", "signed": "packages"}, {"type": "zypp"}],
)
def test_a_repository_without_a_signature_or_of_an_unknown_type_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(base.PackageError, match=r"containerd.*unsigned ones are refused"):
        repository_of({**REPOSITORY, **given}, "containerd")


def test_fingerprints_are_gpgs() -> None:
    assert fingerprints(KEY) == [FINGERPRINT]
    assert fingerprints(KEY + "\n" + KEY) == [FINGERPRINT, FINGERPRINT]


def test_another_key_than_the_fingerprint_says_is_refused() -> None:
    assert repository_of({**REPOSITORY, "fingerprint": FINGERPRINT.lower()}, "containerd").key == KEY.strip()
    with pytest.raises(base.PackageError, match=FINGERPRINT):
        repository_of({**REPOSITORY, "fingerprint": "0" * 40}, "containerd")


@pytest.mark.parametrize("fingerprint", ["", FINGERPRINT])
@pytest.mark.parametrize("how", ["cut off", "other letters", "one other letter", "no packet", "empty"])
def test_a_damaged_key_is_refused(how: str, fingerprint: str) -> None:
    body = KEY.splitlines()[2]
    spoiled = {
        "cut off": body[:40],
        "empty": "",
        "one other letter": "\n".join([body.replace("9PGx", "9PGy"), *KEY.splitlines()[3:-1]]),
        "other letters": body + "!" + "\n".join(KEY.splitlines()[3:-1]),
        "no packet": base64.b64encode(b"not a key at all").decode(),
    }[how]
    block = KEY.replace("\n".join(KEY.splitlines()[2:-1]), spoiled)
    with pytest.raises(base.PackageError, match=r"containerd.*damaged"):
        repository_of({**REPOSITORY, "key": block, "fingerprint": fingerprint}, "containerd")


def test_a_key_with_the_line_ends_of_windows_is_the_same() -> None:
    assert fingerprints(KEY.replace("\n", "\r\n")) == [FINGERPRINT]


@pytest.mark.parametrize(
    ("uri", "refused"),
    [
        ("https://user:secret@mirror.example.com/cuda/", True),
        ("https://token@mirror.example.com", True),
        ("https://mirror.example.com/@scope/cuda/", False),
        ("file:/srv/packages@site", False),
    ],
)
def test_a_password_stands_in_no_file_that_everybody_may_read(uri: str, refused: bool) -> None:
    given = {**REPOSITORY, "uris": [uri]}
    if refused:
        with pytest.raises(base.PackageError, match=r"/etc/apt/auth\.conf\.d") as raised:
            repository_of(given, "containerd")
        assert "secret" not in str(raised.value)
    else:
        assert repository_of(given, "containerd").uris == [uri]
