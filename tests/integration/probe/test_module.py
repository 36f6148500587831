from __future__ import annotations

from pathlib import Path

import pytest

from gpusmith.probe import module
from gpusmith.probe.commands import Command


def test_a_file_of_an_upgrade_that_keeps_the_driver_out_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = tmp_path / "block.conf"
    monkeypatch.setattr(module, "UPGRADE_BLOCK", str(block))
    assert module.gather(Command("true"), []).blocked_by is None
    block.touch()
    assert module.gather(Command("true"), []).blocked_by == str(block)
