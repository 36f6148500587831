"""Which lines of fstab are swap."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpusmith.gpu.plugins.modules import swap_off

from gpusmith.probe import boot, system


def test_swap_lines_are_commented_once() -> None:
    table = "UUID=1 / ext4 defaults 0 1\n# UUID=0 none swap sw 0 0\nUUID=2 none swap sw 0 0\n/swapfile swap swap defaults 0 0\n"
    once = swap_off.without_swap(table)
    assert once.splitlines()[2] == swap_off.MARK + "UUID=2 none swap sw 0 0"
    assert once.count(swap_off.MARK) == 2
    assert swap_off.without_swap(once) == once


def test_swap_that_boots_leave_off_is_left_alone() -> None:
    table = "/swapfile none swap noauto,sw 0 0\n"
    assert swap_off.without_swap(table) == table


@pytest.mark.parametrize("check", [False, True])
def test_units_that_start_swap_at_boot_are_disabled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: bool
) -> None:
    (tmp_path / "multi-user.target.wants").mkdir()
    link = tmp_path / "multi-user.target.wants" / "swapfile.swap"
    link.symlink_to("/run/systemd/generator/swapfile.swap")
    monkeypatch.setattr(boot, "UNIT_FOLDER", str(tmp_path))
    monkeypatch.setattr(swap_off, "MASK", tmp_path / "swap.target")
    monkeypatch.setattr(system, "swap_areas", lambda text: [])
    monkeypatch.setattr(swap_off.bundle, "take", lambda module: None)
    ended: list[dict[str, Any]] = []
    module = SimpleNamespace(
        params={"fstab": str(tmp_path / "fstab")},
        check_mode=check,
        exit_json=lambda **result: ended.append(result),
    )
    monkeypatch.setattr(swap_off, "AnsibleModule", lambda **_arguments: module)
    swap_off.main()
    swap_off.main()
    assert [result["changed"] for result in ended] == [True, check]
    assert link.is_symlink() is check
