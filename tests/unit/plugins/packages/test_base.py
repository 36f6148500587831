"""What is the same for all package managers: versions, sets of one version, keys, the choice of a backend."""

from __future__ import annotations

import base64

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils import packages
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import base

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
        base.repository({**REPOSITORY, field: value}, "containerd")


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
    assert base.repository({**REPOSITORY, **given}, "containerd").signed == signed


@pytest.mark.parametrize(
    "given",
    [{"type": "rpm", "signed": "none"}, {"type": "deb", "signed": "packages"}, {"type": "zypp"}],
)
def test_a_repository_without_a_signature_or_of_an_unknown_type_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(base.PackageError, match=r"containerd.*unsigned ones are refused"):
        base.repository({**REPOSITORY, **given}, "containerd")


def test_fingerprints_are_gpgs() -> None:
    assert base.fingerprints(KEY) == [FINGERPRINT]
    assert base.fingerprints(KEY + "\n" + KEY) == [FINGERPRINT, FINGERPRINT]


def test_another_key_than_the_fingerprint_says_is_refused() -> None:
    assert (
        base.repository({**REPOSITORY, "fingerprint": FINGERPRINT.lower()}, "containerd").key == KEY.strip()
    )
    with pytest.raises(base.PackageError, match=FINGERPRINT):
        base.repository({**REPOSITORY, "fingerprint": "0" * 40}, "containerd")


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
        base.repository({**REPOSITORY, "key": block, "fingerprint": fingerprint}, "containerd")


def test_a_key_with_the_line_ends_of_windows_is_the_same() -> None:
    assert base.fingerprints(KEY.replace("\n", "\r\n")) == [FINGERPRINT]


@pytest.mark.parametrize(
    ("version", "wanted", "expected"),
    [
        ("1.36.3-1.1", "1.36.3", True),
        ("1:1.36.3-1", "1.36.3", True),
        ("1.36.3-1.1", "1.36.3-1.1", True),
        ("1.36.30-1.1", "1.36.3", False),
        ("1.36.3-1.1", "1.36", False),
        ("12.8.1-1", "12.8.*", True),
        ("12.80.1-1", "12.8.*", False),
        (None, "1.36.3", False),
    ],
)
def test_satisfies(version: str | None, wanted: str, expected: bool) -> None:
    assert base.satisfies(version, wanted) is expected


def test_a_set_gets_one_revision_although_a_newer_one_has_parts_of_it() -> None:
    offers = {
        "lib": ["580.159.03-1ubuntu1", "580.159.03-0ubuntu0.24.04.1"],
        "smi": ["580.159.03-0ubuntu0.24.04.1"],
    }
    wanted = dict.fromkeys(offers, "580.159.03")
    assert base.exact(offers, wanted) == dict.fromkeys(offers, "580.159.03-0ubuntu0.24.04.1")
    # What is there already decides as well.
    assert base.exact({"lib": ["1-2", "1-1"], "smi": ["1-1"]}, {"lib": "1", "smi": "1"}) == {
        "lib": "1-1",
        "smi": "1-1",
    }


def test_different_revisions_are_taken_where_there_is_no_common_one() -> None:
    offers = {"lib": ["1.0-2"], "smi": ["1.0-1"], "alone": ["2.0-1"]}
    assert base.exact(offers, {"lib": "1.0", "smi": "1.0", "alone": "2.0", "none": "1.0"}) == {
        "lib": "1.0-2",
        "smi": "1.0-1",
        "alone": "2.0-1",
    }


def test_a_full_version_is_preferred_to_one_that_begins_like_it() -> None:
    assert base.newest_match(["1.0-1+b2", "1.0-1"], "1.0-1") == "1.0-1"


@pytest.mark.parametrize(
    ("programs", "name"),
    [({"apt-get", "dpkg"}, "apt"), ({"dnf", "yum"}, "dnf"), ({"zypper"}, "zypper"), (set(), "")],
)
def test_the_package_manager_has_a_name(programs: set[str], name: str) -> None:
    assert packages.manager(lambda program: program if program in programs else None) == name


@pytest.mark.parametrize(("name", "says"), [("zypper", "'zypper'"), ("", "No known package manager")])
def test_other_package_managers_are_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, name: str, says: str
) -> None:
    monkeypatch.setattr(packages, "manager", lambda: name)
    with pytest.raises(base.PackageError, match=says):
        packages.backend()
