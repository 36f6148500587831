"""The program that looks around for GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


def test_isolation_sees_a_device_node(load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look = load("look_around")
    monkeypatch.setattr(look, "made_nodes", list)
    assert look.work(str(tmp_path / "nvidia*"))["devices"] == []
    (tmp_path / "nvidia0").write_text("")
    with pytest.raises(load("gpu_driver").ProgramError, match="nvidia0"):
        look.work(str(tmp_path / "nvidia*"))
