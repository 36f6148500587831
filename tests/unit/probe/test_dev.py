from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpusmith.probe import dev


@pytest.mark.parametrize(
    ("name", "target", "leads"),
    [
        ("195:1", "/dev/nvidia1", True),
        ("195:1", "/dev/nvidia0", False),
        ("195:1", "/dev/nvidia9", False),
        ("511:1", "/dev/nvidia-caps/nvidia-cap1", False),
    ],
)
def test_a_char_link_must_lead_to_the_device_of_its_name(
    monkeypatch: pytest.MonkeyPatch, name: str, target: str, leads: bool
) -> None:
    devices = {"/dev/nvidia0": os.makedev(195, 0), "/dev/nvidia1": os.makedev(195, 1)}

    def stat(path: str) -> SimpleNamespace:
        if path not in devices:
            raise FileNotFoundError(path)
        return SimpleNamespace(st_rdev=devices[path])

    with monkeypatch.context() as patch:
        patch.setattr("os.path.islink", lambda _: True)
        patch.setattr("os.path.realpath", lambda _: target)
        patch.setattr("os.stat", stat)
        found = dev.leads_to_its_device(f"/dev/char/{name}")
    assert found is leads


def test_device_nodes_are_looked_at_and_not_followed(tmp_path: Path) -> None:
    null = dev.read_device("/dev/null")
    assert null is not None
    assert (null.kind, null.major, null.minor, null.mode) == ("char", 1, 3, 0o666)
    (tmp_path / "file").touch(0o600)
    (tmp_path / "link").symlink_to("/dev/null")
    file, link = (dev.read_device(str(tmp_path / name)) for name in ("file", "link"))
    assert file is not None
    assert link is not None
    assert (file.kind, file.major, file.mode) == ("file", None, 0o600)
    assert link.kind == "link"
    assert dev.read_device(str(tmp_path / "none")) is None


def test_what_the_driver_was_told_about_its_device_nodes_is_read() -> None:
    text = "ResmanDebugLevel: 4294967295\nDeviceFileUID: 0\nDeviceFileGID: 44\nDeviceFileMode: 432\n"
    assert dev.parse_params(text) == {"file_mode": 0o660, "file_uid": 0, "file_gid": 44}
    assert dev.parse_params("DeviceFileMode: 0660\n")["file_mode"] == 0o660
    assert dev.parse_params("") == {"file_mode": None, "file_uid": None, "file_gid": None}
    devices = "Character devices:\n  1 mem\n195 nvidia\n511 nvidia-uvm\n\nBlock devices:\n  8 sd\n"
    assert dev.major_of("nvidia-uvm", devices) == 511
    assert dev.major_of("sd", devices) is None
