"""Images of machines: what scripts inside of them find, whoever builds them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from gpulab.artifacts import machine_images
from gpulab.artifacts.machine_images import MachineImage


def test_scripts_inside_go_by_no_folder_of_who_builds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """mktemp fails with a TMPDIR that is only outside, as the end-to-end tests set one."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "of-the-person"))
    inside: list[Mapping[str, str]] = []

    def run(words: list[Any], _log: Path, env: Mapping[str, str] | None = None, **_: Any) -> None:
        if words[0] == "chroot":
            inside.append(env or {})

    monkeypatch.setattr(machine_images, "run_logged", run)
    hook = tmp_path / "hook.sh"
    hook.write_text("#!/bin/sh\nmktemp -d\n")
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    image = MachineImage("node", overlays=(), hooks=(hook,), units=("a.service",))
    machine_images._lay_over(image, root, tmp_path / "log")
    assert [env.get("TMPDIR") for env in inside] == ["/tmp", "/tmp"]
