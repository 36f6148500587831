"""apt as the roles use it: files, versions and what apt's programs print."""

from __future__ import annotations

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils import apt

KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmDMEaSA=\n-----END PGP PUBLIC KEY BLOCK-----\n"
REPOSITORY = {"uris": ["http://depot/apt/containerd/"], "suites": ["./"], "components": [], "key": KEY}


def test_source_carries_key_and_escapes_its_empty_line() -> None:
    text = apt.render_source(REPOSITORY, "containerd")
    assert (
        "URIs: http://depot/apt/containerd/\nSuites: ./\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mDMEaSA=\n"
        in text
    )
    assert "Components" not in text


@pytest.mark.parametrize(
    ("field", "value"), [("uris", []), ("suites", []), ("key", ""), ("key", "https://keys/one.asc")]
)
def test_repository_without_address_suite_or_key_is_refused(field: str, value: object) -> None:
    with pytest.raises(apt.AptError, match="containerd"):
        apt.render_source({**REPOSITORY, field: value}, "containerd")


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
    assert apt.satisfies(version, wanted) is expected


def test_madison_lists_each_version_once_newest_first() -> None:
    lines = ["1.36.3-1.1 | http://d", "1.36.2-1.1 | http://d", "1.36.2-1.1 | http://e"]
    text = "".join(f"kubelet | {line} ./ Packages\n" for line in lines)
    assert apt.parse_madison(text) == {"kubelet": ["1.36.3-1.1", "1.36.2-1.1"]}


def test_half_installed_package_is_not_installed() -> None:
    text = "a\t1-1\tii \nb\t2-1\thi \nc\t3-1\tiF \nd\t\tun \n"
    assert apt.parse_installed(text) == {
        "a": {"version": "1-1", "held": False},
        "b": {"version": "2-1", "held": True},
    }


def test_preferences_pin_each_package() -> None:
    text = apt.render_preferences({"kubelet": "1.36.3-1.1"}, "kubernetes_node")
    assert "Package: kubelet\nPin: version 1.36.3-1.1\nPin-Priority: 1001\n" in text
