"""Packages as rpm and dnf print them, and the order of their versions."""

from __future__ import annotations

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import rpm

INSTALLED = (
    "nvidia-driver-cuda\t3:580.95.05-1.el9\tx86_64\tnvidia-driver-580.95.05-1.el9.src.rpm\t7\n"
    "nvidia-driver-libs\t3:580.95.05-1.el9\ti686\tnvidia-driver-580.95.05-1.el9.src.rpm\t7\n"
    "gpg-pubkey\ta9bfab87-6b031f80\t(none)\t(none)\t7\n"
    "bash\t0:5.1.8-9.el9\tx86_64\tbash-5.1.8-9.el9.src.rpm\t1\n"
)


def test_rows_have_source_and_version_without_an_epoch_of_zero() -> None:
    first, second = rpm.parse_rows(INSTALLED)
    assert first == rpm.Row("nvidia-driver-cuda", "3:580.95.05-1.el9", "x86_64", "nvidia-driver", "7")
    assert (second.version, second.source) == ("5.1.8-9.el9", "bash")


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("580.95.05-1.el9", "580.178.04-1.el9"),
        ("595.71.05-1.el9", "3:580.95.05-1.el9"),
        ("1.0~rc1-1", "1.0-1"),
        ("1.0-1", "1.0^git1-1"),
        ("1.0-1.el9", "1.0-1.el10"),
        ("1.0a-1", "1.0.1-1"),
        ("1.09-1", "1.10-1"),
    ],
)
def test_the_order_of_versions(older: str, newer: str) -> None:
    assert rpm.compare(older, newer) < 0 < rpm.compare(newer, older)
    assert rpm.newest_first([older, newer, older]) == [newer, older]


def test_signs_and_zeros_make_no_difference() -> None:
    assert rpm.compare("1.01_2-1", "1_1.02-1") == 0


def test_two_versions_of_one_architecture_are_told() -> None:
    rows = [rpm.Row("a", "1-1", "noarch", "a", "1"), rpm.Row("a", "2-1", "noarch", "a", "2")]
    rows += [rpm.Row("b", "1-1", "x86_64", "b", "1"), rpm.Row("b", "2-1", "noarch", "b", "2")]
    assert rpm.twice(rows) == {"a"}
