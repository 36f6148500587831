"""The program that looks around for GPUs."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest


def test_isolation_sees_a_device_node(load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look = load("look_around")
    monkeypatch.setattr(look, "made_nodes", lambda: ([], ""))
    assert look.work(str(tmp_path / "nvidia*"))["devices"] == []
    (tmp_path / "nvidia0").write_text("")
    with pytest.raises(load("gpu_driver").ProgramError, match="nvidia0"):
        look.work(str(tmp_path / "nvidia*"))


@pytest.mark.parametrize(
    ("may_make", "may_open", "opened", "not_tried"),
    [
        # Without the capability, nothing was attacked: that is said, and is no proof.
        (False, False, False, True),
        # What can be made and opened is harmless, a GPU is not granted.
        (True, False, False, False),
        (True, True, True, False),
    ],
)
def test_device_nodes_of_ones_own_are_an_attack_only_where_harmless_ones_work(
    load: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    may_make: bool,
    may_open: bool,
    opened: bool,
    not_tried: bool,
) -> None:
    look = load("look_around")

    def mknod(path: str, mode: int, device: int) -> None:
        if not may_make:
            raise PermissionError(errno.EPERM, "mknod")
        Path(path).write_text(str(device))

    def open_error(path: str) -> str:
        harmless = Path(path).read_text() == str(os.makedev(*look.HARMLESS))
        return "" if harmless or may_open else "EPERM"

    monkeypatch.setattr(look.os, "mknod", mknod)
    monkeypatch.setattr(look, "open_error", open_error)
    monkeypatch.setattr(look, "nvml_uuids", list)
    pattern = str(tmp_path / "nvidia*")
    if opened:
        with pytest.raises(load("gpu_driver").ProgramError, match="can open"):
            look.work(pattern)
        return
    found = look.work(pattern)
    assert bool(found["not_tried"]) is not_tried
    assert bool(found["devices"]) is may_make
