"""Containers on machines whose GPUs are divided see the machine's /proc/driver."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from simgpu import containers


@pytest.mark.parametrize(
    "hooks", [{}, {"hooks": {"createContainer": [{"path": "/usr/bin/nvidia-ctk"}], "poststop": []}}]
)
def test_a_container_is_given_it_before_other_hooks(tmp_path: Path, hooks: dict[str, object]) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"root": {"path": "rootfs"}, **hooks}))
    containers.show(tmp_path)
    spec = json.loads((tmp_path / "config.json").read_text())
    first, *others = spec["hooks"]["createContainer"]
    assert first["args"][-1] == f"{tmp_path}/rootfs/proc/driver"
    assert others == json.loads(json.dumps(hooks)).get("hooks", {}).get("createContainer", [])
