"""Which lines of fstab are swap."""

from __future__ import annotations

from ansible_collections.gpusmith.gpu.plugins.modules import swap_off


def test_swap_lines_are_commented_once() -> None:
    table = "UUID=1 / ext4 defaults 0 1\n# UUID=0 none swap sw 0 0\nUUID=2 none swap sw 0 0\n/swapfile swap swap defaults 0 0\n"
    once = swap_off.without_swap(table)
    assert once.splitlines()[2] == swap_off.MARK + "UUID=2 none swap sw 0 0"
    assert once.count(swap_off.MARK) == 2
    assert swap_off.without_swap(once) == once


def test_active_swap() -> None:
    assert swap_off.active_swap("Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n") == [
        "/dev/sda2"
    ]
    assert swap_off.active_swap("Filename Type Size Used Priority\n") == []
