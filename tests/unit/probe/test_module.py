from __future__ import annotations

from pathlib import Path

import pytest

from gpusmith.probe import module
from gpusmith.probe.commands import Command


def test_the_module_file_tells_version_and_flavour() -> None:
    text = (
        "filename:       /lib/modules/x/nvidia.ko\nversion:        580.178.04\nlicense:        Dual MIT/GPL\n"
    )
    assert module.parse_modinfo(text) == ("580.178.04", "Dual MIT/GPL")
    assert module.flavour_of_license("Dual MIT/GPL") == "open"
    assert module.flavour_of_license("NVIDIA") == "proprietary"
    assert module.flavour_of_license(None) is None


def test_a_file_of_an_upgrade_that_keeps_the_driver_out_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = tmp_path / "block.conf"
    monkeypatch.setattr(module, "UPGRADE_BLOCK", str(block))
    assert module.gather(Command("true"), []).blocked_by is None
    block.touch()
    assert module.gather(Command("true"), []).blocked_by == str(block)
