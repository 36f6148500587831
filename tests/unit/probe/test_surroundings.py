"""What else rules a machine, by texts as the programs write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusmith.probe import surroundings
from gpusmith.probe.boot import swap_units


@pytest.mark.parametrize(
    ("text", "on"),
    [("# x\nENABLED=yes\n", True), ("ENABLED=no\n", False), ("#ENABLED=yes\n", False), ("", False)],
)
def test_ufw_is_on_by_its_configuration(text: str, on: bool) -> None:
    assert surroundings.ufw_enabled(text) is on


def test_selinux_enforces_by_the_kernels_word(tmp_path: Path) -> None:
    assert surroundings.selinux(str(tmp_path / "none")) == "disabled"
    assert surroundings.selinux(str(tmp_path)) is None
    for said, state in (("1", "enforcing"), ("0", "permissive")):
        (tmp_path / "enforce").write_text(said)
        assert surroundings.selinux(str(tmp_path)) == state


def test_services_that_make_swap_are_found_by_their_links(tmp_path: Path) -> None:
    for name in ("multi-user.target.wants/zramswap.service", "swap.target.wants/dev-zram0.swap"):
        link = tmp_path / name
        link.parent.mkdir()
        link.symlink_to("/dev/null")
    # What swap.target wants does not come while that is masked.
    assert swap_units(str(tmp_path)) == [str(tmp_path / "multi-user.target.wants/zramswap.service")]
