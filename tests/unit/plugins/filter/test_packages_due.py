"""Whether module packages has anything to do is known from the record, by the module's own work."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpusmith.gpu.plugins.filter.packages_due import packages_due
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import apt_files
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.repositories import repository_of

from tests.unit.keys import KEY, OTHER_KEY

ASKED: dict[str, Any] = {
    "name": "nvidia-driver",
    "repository": {"uris": ["https://example.org/apt"], "suites": ["./"], "key": KEY},
    "packages": {"libcuda1": "580.178.04"},
    "patterns": ["libnvidia-*"],
    "unversioned": ["nvidia-modprobe"],
    "hold_unversioned": True,
}
PINS = {"libcuda1": ["580.178.04-1"], "libnvidia-*": ["580.178.04-1"]}
SOURCE, PREFERENCES = (
    "/etc/apt/sources.list.d/gpusmith-nvidia-driver.sources",
    "/etc/apt/preferences.d/gpusmith-nvidia-driver",
)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def record() -> dict[str, Any]:
    """A node on which nothing is to be done."""
    source = apt_files.render_source(repository_of(ASKED["repository"], "nvidia-driver"), "nvidia-driver")
    return {
        "packages": {
            "libcuda1": {"version": "580.178.04-1", "held": True},
            "libnvidia-ml1": {"version": "580.178.04-1", "held": True},
            "nvidia-modprobe": {"version": "590.1-1", "held": True},
        },
        "managed_files": {
            SOURCE: digest(source),
            f"{PREFERENCES}.pref": digest(apt_files.render_preferences(PINS, "nvidia-driver")),
        },
    }


def test_a_node_that_is_right_needs_nothing(record: dict[str, Any]) -> None:
    before = copy.deepcopy(record)
    assert packages_due(record, ASKED) is False
    assert record == before


@pytest.mark.parametrize(
    "spoil",
    [
        lambda record: record["packages"].pop("libcuda1"),
        lambda record: record["packages"].pop("nvidia-modprobe"),
        lambda record: record["packages"]["libcuda1"].update(version="575.1-1"),
        lambda record: record["packages"]["libcuda1"].update(held=False),
        lambda record: record["packages"]["libnvidia-ml1"].update(held=False),
        lambda record: record["packages"]["nvidia-modprobe"].update(held=False),
        lambda record: record["managed_files"].pop(SOURCE),
        lambda record: record["managed_files"].update({SOURCE: digest("other")}),
        lambda record: record["managed_files"].pop(f"{PREFERENCES}.pref"),
    ],
)
def test_whatever_differs_is_due(record: dict[str, Any], spoil: Callable[[dict[str, Any]], object]) -> None:
    spoil(record)
    assert packages_due(record, ASKED) is True


@pytest.mark.parametrize(
    "change",
    [{"key": OTHER_KEY}, {"uris": ["https://example.org/other"]}, {"key": "damaged"}],
)
def test_another_repository_is_due_also_on_a_node_that_has_everything(
    record: dict[str, Any], change: dict[str, Any]
) -> None:
    assert packages_due(record, {**ASKED, "repository": {**ASKED["repository"], **change}}) is True


def test_what_is_no_record_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="node_state"):
        packages_due({}, ASKED)


RPM_VERSION = "3:580.178.04-1.el9"
RPM_ASKED: dict[str, Any] = {
    "name": "nvidia-driver",
    "packages": {"nvidia-driver-cuda": "580.178.04"},
    "patterns": ["*nvidia*"],
}
HELD = "nvidia-driver-cuda-3:580.178.04-1.el9.?*\nnvidia-driver-libs-3:580.178.04-1.el9.?*\n"
PINS_OF_DNF = f"# Written by gpusmith for nvidia-driver.\n{HELD}nvidia-modprobe-3:580.178.04-1.el9.?*\n"
LOCKS = f"# of the site\nkernel-5.14*\n{PINS_OF_DNF}# Written by gpusmith for what is held.\n{HELD}"


def rpm_record(locks: str) -> dict[str, Any]:
    """A node that rpm manages, with the driver."""
    row = {"version": RPM_VERSION, "held": True, "source": "nvidia-driver"}
    return {
        "packages": {"nvidia-driver-cuda": row, "nvidia-driver-libs": row},
        "package_database": "rpm",
        "package_locks": locks,
        "managed_files": {"/etc/dnf/plugins/versionlock.list": digest(locks)},
    }


def test_a_node_with_dnf_is_known_by_its_locks() -> None:
    assert packages_due(rpm_record(LOCKS), RPM_ASKED) is False
    # A pin is gone, or of another version.
    assert packages_due(
        rpm_record(LOCKS.replace("nvidia-driver-libs-3:580", "nvidia-driver-libs-3:570", 1)), RPM_ASKED
    )
    assert packages_due(rpm_record("# of the site\nkernel-5.14*\n"), RPM_ASKED)


def test_locks_with_a_comment_that_is_not_utf_8_are_known_all_the_same() -> None:
    """A record has such bytes replaced, so that no digest of its text is that of the file."""
    there = "# f\xfcr uns\n".encode("latin-1") + LOCKS.encode()
    record = rpm_record(there.decode(errors="replace"))
    record["managed_files"] = {"/etc/dnf/plugins/versionlock.list": hashlib.sha256(there).hexdigest()}
    assert packages_due(record, RPM_ASKED) is False


def test_a_record_of_debian_has_no_locks_and_one_of_rpm_no_preferences() -> None:
    assert packages_due({**rpm_record(LOCKS), "package_database": "dpkg"}, RPM_ASKED)
