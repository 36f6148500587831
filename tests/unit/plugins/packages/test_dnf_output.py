"""What dnf's programs print."""

from __future__ import annotations

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import base, dnf_output

OLD, NEW = "3:580.178.04-1.el9", "3:595.71.05-1.el9"
# Captured from dnf 4.14.0, but for the long name's and the obsoleted package's lines, whose form is of dnf/cli/output.py.
TABLE = """Dependencies resolved.
================================================================================
 Package            Architecture   Version                     Repository  Size
================================================================================
Installing:
 drv-closed         noarch         3:580.178.04-1.el9          t          6.2 k
     replacing  drv-old.noarch 570.1-1.el9
Upgrading:
 drv-tool           noarch         3:595.71.05-1.el9           t          6.0 k
Installing dependencies:
 kmod-nvidia-open-580.178.04-5.14.0-570.12.1
                    x86_64         3:580.178.04-1.el9          t           45 M
Removing dependent packages:
 drv-open           noarch         3:580.178.04-1.el9          @t          11  
Downgrading:
 drv-libs           noarch         3:580.178.04-1.el9          t          6.0 k

Transaction Summary
================================================================================
Install    2 Packages
Upgrade    1 Package
Remove     1 Package
Downgrade  1 Package

Total size: 45 M
"""  # noqa: W291 - as dnf prints it


def test_a_plan_tells_new_changed_and_removed() -> None:
    there = {"drv-tool": OLD, "drv-libs": NEW, "drv-open": OLD, "drv-old": "570.1-1.el9"}
    assert dnf_output.parse_plan(TABLE, there) == base.Plan(
        {"drv-closed": OLD, "kmod-nvidia-open-580.178.04-5.14.0-570.12.1": OLD},
        {"drv-tool": (OLD, NEW), "drv-libs": (NEW, OLD)},
        {"drv-old": "570.1-1.el9", "drv-open": OLD},
    )


def test_nothing_to_do_is_an_empty_plan() -> None:
    text = "Package kit is already installed.\nDependencies resolved.\nNothing to do.\nComplete!\n"
    assert dnf_output.parse_plan(text, {}) == base.Plan({}, {}, {})


def test_a_table_that_is_not_understood_is_no_plan() -> None:
    with pytest.raises(base.PackageError, match="not understood"):
        dnf_output.parse_plan(TABLE.replace("Upgrading:", "Lifting:"), {})


@pytest.mark.parametrize(
    ("stderr", "says"),
    [
        ("Importing GPG key 0xA9:\n Userid     : \"t\"\n From       : /k\nPackage a.rpm is not signed\nError: GPG check FAILED\n",
         "Package a.rpm is not signed Error: GPG check FAILED"),
        ("No matches found for the following disable plugin patterns: local\nUnable to read consumer identity\nError: no a\n",
         "Error: no a"),
        ("Failed loading plugin \"x\": no\nError: \n Problem: nothing provides b needed by a\n(try to add '--skip-broken')\n",
         "Error: Problem: nothing provides b needed by a"),
    ],
)  # fmt: skip
def test_an_error_names_its_cause(stderr: str, says: str) -> None:
    assert dnf_output.cause("", stderr) == says


@pytest.mark.parametrize(
    "said",
    [
        "RPMDB already locked by 1466\n  The application with PID 1466 is: dnf-automatic\n",
        "metadata already locked by 1225\n",
        "RPM: error: can't create transaction lock on /var/lib/rpm/.rpm.lock (Resource temporarily unavailable)\n",
    ],
)
def test_a_lock_of_another_program_is_known(said: str) -> None:
    assert dnf_output.LOCKED.search(said)


def test_what_comes_along_counts_and_what_nobody_tells_is_infinite() -> None:
    assert dnf_output.total_bytes(TABLE) == 45 << 20
    assert dnf_output.total_bytes("Total download size: 6.5 k\n") == 6.5 * 1024
    assert dnf_output.total_bytes("Nothing to do.\n") == float("inf")
